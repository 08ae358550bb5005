package observability

// one is a panel with one query, stat one that shows a number, quantiles one of the usual and of the slow case of a histogram.
func one(title, unit, expr, legend string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}}
}

func stat(title, unit, expr, legend string) panel {
	p := one(title, unit, expr, legend)
	p.stat = true
	return p
}

func quantiles(title, histogram, by string) panel {
	quantile := func(q, name string) query {
		return query{"histogram_quantile(" + q + ", sum by (" + by + ", le) (rate(" + histogram + "_bucket[$__rate_interval])))", name + " {{" + by + "}}"}
	}
	return panel{title: title, unit: "s", queries: []query{quantile("0.5", "half"), quantile("0.99", "99 %")}}
}

// dashboardRows are the dashboard's content. What is of the whole cluster is the maximum over controllers.
var dashboardRows = []row{
	{"Overview", []panel{
		stat("Leaders", "none", `sum(holdfast_raft_state{state="leader"})`, ""),
		stat("Members that answer", "none", `count(holdfast_raft_term)`, ""),
		stat("Hosts", "none", `max by (state) (holdfast_cluster_nodes)`, "{{state}}"),
		stat("Volumes", "none", `sum(max by (site) (holdfast_cluster_volumes))`, ""),
		stat("Without redundancy", "none", `max by (kind) (holdfast_cluster_volumes_without_redundancy)`, "{{kind}}"),
		stat("Failures tolerated", "none", `min by (kind) (holdfast_cluster_failures_tolerated)`, "{{kind}}"),
		one("Replicas", "none", `max by (state) (holdfast_cluster_replicas) > 0`, "{{state}}"),
		one("Operations", "none", `max by (kind, state) (holdfast_operations) > 0`, "{{kind}} {{state}}"),
		one("Volumes that need attention", "none", `count by (why) (max by (volume_id, why) (holdfast_volume_info))`, "{{why}}"),
	}},
	{"Raft", []panel{
		one("Role", "none", `holdfast_raft_state == 1`, "{{instance}} {{state}}"),
		one("Proposals", "ops", `sum by (outcome) (rate(holdfast_raft_proposals_total[$__rate_interval]))`, "{{outcome}}"),
		one("Elections", "none", `increase(holdfast_raft_elections_total[15m])`, "{{instance}}"),
		quantiles("Durable write", "holdfast_raft_fsync_seconds", "instance"),
		quantiles("Apply of a batch", "holdfast_raft_apply_seconds", "instance"),
		one("Behind the newest entry", "none", `scalar(max(holdfast_raft_commit_index)) - holdfast_raft_applied_index`, "{{instance}}"),
		one("Disk free", "bytes", `holdfast_raft_disk_free_bytes`, "{{instance}}"),
		one("Ready", "none", `holdfast_raft_ready`, "{{instance}}"),
		one("Clock ahead of the median", "s", `holdfast_clock_ahead_seconds`, "{{instance}}"),
		one("Calls of hosts and operators", "ops", `sum by (method, code) (rate(holdfast_api_calls_total[$__rate_interval]))`, "{{method}} {{code}}"),
		one("Last backup", "s", `time() - (max(holdfast_backup_last_success_timestamp_seconds) > 0)`, "age"),
		one("Snapshots of the state", "none", `increase(holdfast_raft_snapshots_total[1h])`, "{{instance}} {{kind}}"),
	}},
	{"CSI", []panel{
		one("Calls", "ops", `sum by (method) (rate(holdfast_csi_calls_total[$__rate_interval]))`, "{{method}}"),
		one("Answers that are no success", "ops", `sum by (method, code) (rate(holdfast_csi_calls_total{code!="OK"}[$__rate_interval]))`, "{{method}} {{code}}"),
		quantiles("How long calls take", "holdfast_csi_call_duration_seconds", "method"),
	}},
	{"Pools", []panel{
		one("Used", "percentunit", `1 - holdfast_pool_free_bytes / (holdfast_pool_capacity_bytes > 0)`, "{{instance}} {{pool}}"),
		one("Reserved of what may be", "percentunit", `max by (node, pool) (holdfast_cluster_pool_reserved_bytes / (holdfast_cluster_pool_reservable_bytes > 0))`, "{{node}} {{pool}}"),
		one("Metadata used", "percentunit", `holdfast_pool_metadata_ratio`, "{{instance}} {{pool}}"),
		one("Volumes", "none", `max by (node, pool) (holdfast_cluster_pool_volumes)`, "{{node}} {{pool}}"),
		one("Present", "none", `holdfast_pool_present`, "{{instance}} {{pool}}"),
		one("Space given back", "Bps", `rate(holdfast_reclaimed_bytes_total[$__rate_interval])`, "{{instance}}"),
	}},
	{"Hosts", []panel{
		one("Sessions by controller", "none", `holdfast_session_hosts`, "{{instance}}"),
		one("Hosts without a session", "none", `holdfast_session_connected == 0`, "{{instance}}"),
		one("Staged volumes", "none", `holdfast_executor_staged_volumes`, "{{instance}}"),
		one("Steps", "ops", `sum by (step, outcome) (rate(holdfast_executor_steps_total[$__rate_interval]))`, "{{step}} {{outcome}}"),
		quantiles("How long steps take", "holdfast_executor_step_seconds", "step"),
		one("Reports", "ops", `sum by (outcome) (rate(holdfast_executor_reports_total[$__rate_interval]))`, "{{outcome}}"),
		one("Parked volumes", "none", `holdfast_executor_parked_volumes`, "{{instance}}"),
		one("Ends of use that are not in the log", "none", `holdfast_executor_outbox_records`, "{{instance}}"),
		one("Fences", "none", `max by (state) (holdfast_cluster_fences)`, "{{state}}"),
		one("What the last audits found", "none", `holdfast_audit_findings`, "{{instance}} {{kind}}"),
		one("Clock is set", "none", `holdfast_clock_synchronised`, "{{instance}}"),
		one("Certificates expire in", "s", `holdfast_certificate_expiry_timestamp_seconds - time()`, "{{identity}}"),
	}},
	{"Replication", []panel{
		one("Out of sync", "bytes", `holdfast_replica_out_of_sync_bytes > 0`, "{{instance}} {{volume_id}}"),
		one("Resynchronisation and verification", "percentunit", `holdfast_replica_sync_ratio`, "{{kind}} {{volume_id}}"),
		one("Differences that verifications found", "bytes", `holdfast_replica_differences_bytes > 0`, "{{volume_id}}"),
		one("Volumes whose I/O is frozen", "none", `holdfast_replica_frozen == 1`, "{{instance}} {{volume_id}}"),
		one("Oldest verification", "s", `time() - min(max by (volume_id) (holdfast_replica_verified_timestamp_seconds))`, "age"),
		one("Replications between sites", "none", `max by (status) (holdfast_cluster_replications)`, "{{status}}"),
		one("Since all sites were equal", "s", `max(holdfast_cluster_replication_unequal_seconds)`, "longest"),
	}},
	{"Snapshots", []panel{
		one("Snapshots", "none", `max(holdfast_cluster_snapshots)`, "snapshots"),
		one("Group snapshots", "none", `max(holdfast_cluster_group_snapshots)`, "group snapshots"),
		quantiles("How long filesystems are frozen", "holdfast_freeze_seconds", "instance"),
		one("Longest freeze", "s", `holdfast_freeze_longest_seconds`, "{{instance}}"),
		one("Volumes held for one", "none", `holdfast_executor_held_volumes`, "{{instance}}"),
		one("Encrypted volumes", "none", `max(holdfast_cluster_encrypted_volumes)`, "encrypted"),
	}},
	{"Process", []panel{
		one("Memory", "bytes", `process_resident_memory_bytes and on (job, instance) holdfast_build_info`, "{{instance}}"),
		one("Processor", "none", `rate(process_cpu_seconds_total[$__rate_interval]) and on (job, instance) holdfast_build_info`, "{{instance}}"),
		one("Open files", "none", `process_open_fds and on (job, instance) holdfast_build_info`, "{{instance}}"),
		one("Goroutines", "none", `go_goroutines and on (job, instance) holdfast_build_info`, "{{instance}}"),
		one("Starts", "none", `changes(process_start_time_seconds[1h]) and on (job, instance) holdfast_build_info`, "{{instance}}"),
		one("Versions", "none", `count by (version) (holdfast_build_info)`, "{{version}}"),
	}},
}
