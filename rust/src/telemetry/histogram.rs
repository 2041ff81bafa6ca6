//! A histogram that a request pays two additions for, with the buckets of TensorFlow Serving.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whole numbers (microseconds, rows), counted by the first bound that is not below them.
pub struct Histogram {
    bounds: Vec<f64>,
    /// One for each bound, and one for what lies above all.
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

impl Histogram {
    /// Bounds `first` · `factor`^i for i below `count`.
    pub fn exponential(first: f64, factor: f64, count: usize) -> Self {
        let bounds: Vec<f64> = (0..count).map(|power| first * factor.powi(power as i32)).collect();
        let counts = (0..=count).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: u64) {
        self.observe_many(value, 1);
    }

    pub fn observe_many(&self, value: u64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value as f64);
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Ordering::Relaxed);
    }

    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// Its samples as text; `labels` without braces, empty for none.
    pub fn write(&self, text: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let bounds = self.bounds.iter().copied().map(general).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, bucket) in bounds.zip(&self.counts) {
            count += bucket.load(Ordering::Relaxed);
            text.push_str(&format!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}\n"));
        }
        let sum = self.sum.load(Ordering::Relaxed);
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        text.push_str(&format!("{name}_sum{braces} {sum}\n{name}_count{braces} {count}\n"));
    }
}

/// A number as C's `%g` writes it: six significant digits, no zeros behind them.
fn general(number: f64) -> String {
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{number:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_c_writes_them() {
        let table = [
            (10.0, "10"),
            (32.4, "32.4"),
            (104.976, "104.976"),
            (188.956_8, "188.957"),
            (666_666.0, "666666"),
            (1_000_000.0, "1e+06"),
            (1_476_915_234.0, "1.47692e+09"),
            (0.000_05, "5e-05"),
            (0.001, "0.001"),
        ];
        for (number, expected) in table {
            assert_eq!(general(number), expected);
        }
    }

    #[test]
    fn values_are_counted_by_the_first_bound_that_holds_them() {
        let histogram = Histogram::exponential(1.0, 2.0, 3);
        assert!(histogram.is_empty());
        for value in [0, 1, 2, 3, 4, 5] {
            histogram.observe(value);
        }
        histogram.observe_many(2, 10);
        let mut text = String::new();
        histogram.write(&mut text, "h", "");
        let expected = "h_bucket{le=\"1\"} 2\nh_bucket{le=\"2\"} 13\nh_bucket{le=\"4\"} 15\nh_bucket{le=\"+Inf\"} 16\n\
                        h_sum 35\nh_count 16\n";
        assert_eq!(text, expected);
    }
}
