//! From OpenMetrics to Prometheus' older text format, 0.0.4, which differs in how counters are announced.

use std::collections::HashSet;

/// The same samples; comments that the older format does not know are left out.
pub fn plain(open_metrics: &str) -> String {
    let counter = |line: &str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = open_metrics.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(word @ ("HELP" | "TYPE")), Some(name), rest) if counters.contains(name) => {
                text.push_str(&format!("# {word} {name}_total {}", rest.unwrap_or_default()));
            }
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_announced_by_the_name_of_their_samples() {
        let before = "# HELP a How often.\n# TYPE a counter\na_total{b=\"# TYPE c counter\"} 1\n# HELP c Now.\n\
                      # TYPE c gauge\n# UNIT c rows\nc 2\n# EOF\n";
        let after = "# HELP a_total How often.\n# TYPE a_total counter\na_total{b=\"# TYPE c counter\"} 1\n\
                     # HELP c Now.\n# TYPE c gauge\nc 2\n";
        assert_eq!(plain(before), after);
    }
}
