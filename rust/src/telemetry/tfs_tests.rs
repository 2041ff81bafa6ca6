use super::*;

fn lines(tfs: &Tfs, prefix: &str) -> Vec<String> {
    tfs.text().lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
}

#[test]
fn every_name_is_announced_before_anything_has_happened() {
    let text = Tfs::default().text();
    let names = [
        ":tensorflow:serving:request_count counter",
        ":tensorflow:serving:request_latency histogram",
        ":tensorflow:serving:runtime_latency histogram",
        ":tensorflow:serving:request_example_counts histogram",
        ":tensorflow:serving:request_example_count_total counter",
        ":tensorflow:serving:request_log_count counter",
        ":tensorflow:serving:model_warmup_latency histogram",
        ":tensorflow:serving:model_warmup_records_read counter",
        ":tensorflow:serving:batching_session:queuing_latency histogram",
        ":tensorflow:serving:batching_session:wrapped_run_count counter",
        ":tensorflow:serving:batching_session:padding_size histogram",
        ":tensorflow:serving:batching_session:input_batch_size histogram",
        ":tensorflow:serving:batching_session:processed_batch_size histogram",
        ":tensorflow:cc:saved_model:load_attempt_count counter",
        ":tensorflow:cc:saved_model:load_latency counter",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), names.map(|name| format!("# TYPE {name}")));
}

#[test]
fn requests_are_counted_by_status_and_timed_when_they_succeed() {
    let tfs = Tfs::default();
    let model = tfs.model("m");
    let took = Duration::from_micros(19);
    model.request(Method::Predict, Api::TfsGrpc, None, took);
    model.request(Method::Predict, Api::TfsRest, None, took);
    model.request(Method::Predict, Api::TfsRest, Some(Code::NotFound), took);
    model.request(Method::Describe, Api::TfsRest, None, took);
    model.ran(Method::Predict, took);
    model.ran(Method::Describe, took);
    assert_eq!(
        lines(&tfs, ":tensorflow:serving:request_count"),
        [
            ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 3",
            ":tensorflow:serving:request_count{model_name=\"m\",status=\"NOT_FOUND\"} 1",
        ]
    );
    let latency = lines(&tfs, ":tensorflow:serving:request_latency_bucket{model_name=\"m\",API=\"Predict\"");
    assert_eq!(latency.len(), 34);
    let labels = "model_name=\"m\",API=\"Predict\",entrypoint=\"GRPC\"";
    assert_eq!(latency[1], format!(":tensorflow:serving:request_latency_bucket{{{labels},le=\"18\"}} 0"));
    assert_eq!(latency[2], format!(":tensorflow:serving:request_latency_bucket{{{labels},le=\"32.4\"}} 1"));
    assert!(latency[32].contains("le=\"1.47"), "{}", latency[32]);
    let sums = lines(&tfs, ":tensorflow:serving:request_latency_sum");
    let of = |api: &str, entry: &str| {
        format!(":tensorflow:serving:request_latency_sum{{model_name=\"m\",API=\"{api}\",entrypoint=\"{entry}\"}} 19")
    };
    assert_eq!(sums, [of("Predict", "GRPC"), of("predict", "REST"), of("", "REST")]);
    assert_eq!(
        lines(&tfs, ":tensorflow:serving:runtime_latency_count"),
        [":tensorflow:serving:runtime_latency_count{model_name=\"m\",API=\"Predict\",runtime=\"TF1\"} 1"]
    );
}

#[test]
fn batches_are_counted_for_all_models_together() {
    let tfs = Tfs::default();
    tfs.admitted(2, 3);
    tfs.waited(Duration::from_micros(150));
    tfs.executed(4, 2);
    let table = [
        ("input_batch_size_sum", "input_batch_size_sum 6"),
        ("input_batch_size_count", "input_batch_size_count 3"),
        ("processed_batch_size_sum", "processed_batch_size_sum 4"),
        ("padding_size_sum", "padding_size_sum{execution_batch_size=\"4\"} 2"),
        ("wrapped_run_count", "wrapped_run_count 1"),
        ("queuing_latency_sum", "queuing_latency_sum{thread_pool_name=\"\"} 150"),
    ];
    for (name, expected) in table {
        let prefix = ":tensorflow:serving:batching_session:";
        assert_eq!(lines(&tfs, &format!("{prefix}{name}")), [format!("{prefix}{expected}")]);
    }
    assert_eq!(lines(&tfs, ":tensorflow:serving:batching_session:queuing_latency_bucket").len(), 53);
}

#[test]
fn loads_are_counted_by_path() {
    let tfs = Tfs::default();
    tfs.loaded("/models/a\"b\\c/1", true, Duration::from_millis(2));
    tfs.loaded("/models/a\"b\\c/1", false, Duration::from_millis(1));
    let path = "model_path=\"/models/a\\\"b\\\\c/1\"";
    assert_eq!(
        lines(&tfs, ":tensorflow:cc"),
        [
            format!(":tensorflow:cc:saved_model:load_attempt_count{{{path},status=\"success\"}} 1"),
            format!(":tensorflow:cc:saved_model:load_attempt_count{{{path},status=\"fail\"}} 1"),
            format!(":tensorflow:cc:saved_model:load_latency{{{path}}} 3000"),
        ]
    );
}

#[test]
fn clients_cannot_make_up_labels() {
    let tfs = Tfs::default();
    tfs.model("m");
    for name in ["m", "made-up", "more"] {
        tfs.logged(name, None);
        tfs.asked_for(name).request(Method::Predict, Api::TfsGrpc, Some(Code::NotFound), Duration::ZERO);
    }
    assert_eq!(
        lines(&tfs, ":tensorflow:serving:request_log_count"),
        [
            ":tensorflow:serving:request_log_count{model_name=\"m\",status_code=\"OK\"} 1",
            ":tensorflow:serving:request_log_count{model_name=\"unknown\",status_code=\"OK\"} 2",
        ]
    );
    assert_eq!(lines(&tfs, ":tensorflow:serving:request_count").len(), 2);
}
