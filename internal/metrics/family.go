package metrics

// Kind is the kind of a family's values.
type Kind uint8

// The kinds of families, as Prometheus has them.
const (
	// Counter values only grow, from 0 at the start of the process.
	Counter Kind = iota
	// Gauge values are present amounts.
	Gauge
	// Distribution values are counted by size, in a histogram.
	Distribution
)

// Family is a set of series that differ in their labels.
type Family struct {
	// Name has Prometheus's form: base units, _total for counters.
	Name string
	Kind Kind
	// Help explains a value in one sentence.
	Help string
	// Labels are the names of the labels, in the order of the values in a series.
	Labels []string
}

// Emit takes one series at a time. The histogram is nil unless the family is a [Distribution],
// whose value is then ignored. It is valid until Emit returns.
type Emit func(f *Family, value float64, h *Histogram, labels ...string)

// Source is a source of series. Collect calls emit for each, and must not repeat a family with the
// same labels. It is safe for concurrent use.
type Source interface {
	Collect(emit Emit)
}

// Families lists the families of all processes of Millrace, besides those of Go and of the process.
var Families []*Family

func family(kind Kind, name, help string, labels ...string) *Family {
	f := &Family{Name: name, Kind: kind, Help: help, Labels: labels}
	Families = append(Families, f)
	return f
}

// Counted by servers from the log. All servers of an installation read the same log, so their
// figures are equal: take the largest, never the sum.
var (
	TasksSubmitted   = family(Counter, "millrace_tasks_submitted_total", "Tasks submitted.", "queue")
	TasksEnded       = family(Counter, "millrace_tasks_ended_total", "Tasks that reached a terminal state, by state and reason code.", "queue", "state", "reason")
	TasksReopened    = family(Counter, "millrace_tasks_reopened_total", "Tasks that had ended and were given another life.")
	AttemptsStarted  = family(Counter, "millrace_task_attempts_started_total", "Attempts started, takeovers included.", "queue")
	Attempts         = family(Counter, "millrace_task_attempts_total", "Attempts that are over, by how they ended.", "outcome")
	AttemptFailures  = family(Counter, "millrace_task_attempt_failures_total", "Attempts that failed, by class of the failure.", "class")
	PendingAge       = family(Distribution, "millrace_task_pending_age_seconds", "How long tasks had been pending when they were started.", "queue")
	RunTime          = family(Distribution, "millrace_task_run_seconds", "How long attempts ran, from their claim to their end however it came.", "queue")
	StartExpired     = family(Counter, "millrace_start_deadline_expired_total", "Tasks that ended because no worker started them in time.", "queue")
	StartExpiredAge  = family(Distribution, "millrace_start_deadline_expired_latency_seconds", "How long tasks had waited when they ended because no worker had started them in time.")
	Takeovers        = family(Counter, "millrace_takeovers_total", "Attempts taken over from a node that had fallen silent.", "reason")
	RestartImpact    = family(Counter, "millrace_restart_impact_tasks_total", "Attempts cut short because their node's session ended: given back by it, taken over from it, or lost with it.", "reason")
	ResultsLate      = family(Counter, "millrace_results_late_total", "Results that came after their attempt had been taken over; kept as evidence only.")
	BreakerState     = family(Gauge, "millrace_breaker_state", "How the breaker of a job stands: 0 closed, 1 half open, 2 open; of those that have changed since the process started.", "breaker")
	BreakerOpened    = family(Counter, "millrace_breaker_opened_total", "Times that the breaker of a job opened.", "breaker")
	TasksPostponed   = family(Counter, "millrace_tasks_postponed_total", "Times that a task which would have started was held back by a rule, such as its job's breaker or window.", "rule")
	NodeConnections  = family(Counter, "millrace_node_connections_total", "Times that a node came: started anew, or came back after it had been away.", "node", "kind")
	NodeOffline      = family(Counter, "millrace_node_offline_total", "Times that a node went: said goodbye, fell silent, or was started anew without either.", "node", "reason")
	NodeSession      = family(Distribution, "millrace_node_session_seconds", "How long nodes stayed online each time.")
	NodeOutage       = family(Distribution, "millrace_node_outage_seconds", "How long nodes that came back had been offline.")
	NodeComeback     = family(Distribution, "millrace_node_reconnect_to_ready_seconds", "From the first fact of a connection of a node until its first heartbeat was stored (online) and until it proved that work reaches it (ready).", "until")
	ScheduleTicks    = family(Counter, "millrace_schedule_ticks_total", "Planned runs that were given their task, by what triggered that.", "trigger")
	ScheduleMissed   = family(Counter, "millrace_schedule_missed_total", "Planned runs that got no task, by why: missed and window are runs that should have been.", "reason")
	ScheduleLag      = family(Distribution, "millrace_schedule_lag_seconds", "From when a planned run was due until it was given its task.")
	Facts            = family(Counter, "millrace_log_facts_total", "Records of the log that were folded, by type of fact.", "type")
	FactsUnreadable  = family(Counter, "millrace_log_unreadable_total", "Messages in the log that could not be understood.")
	HeartbeatGap     = family(Distribution, "millrace_node_heartbeat_gap_seconds", "Time between two heartbeats of a node, by the node's own clock.")
	HeartbeatAgeMax  = family(Gauge, "millrace_node_heartbeat_age_max_seconds", "Age of the oldest heartbeat that has not run out.")
	HeartbeatsTotal  = family(Gauge, "millrace_node_heartbeats", "Heartbeats that have not run out: nodes that live.")
	ReadModelSeq     = family(Gauge, "millrace_read_model_sequence", "Sequence of the log that lists and figures reflect.")
	ReadModelLag     = family(Gauge, "millrace_read_model_lag_sequences", "By how many sequences the read model is behind the log.")
	ReadModelLagTime = family(Gauge, "millrace_read_model_lag_seconds", "For how long something has been in the log that the read model does not have.")
)

// Read from a server's read model on each scrape.
var (
	Tasks         = family(Gauge, "millrace_tasks", "Tasks there are, by queue and state.", "queue", "state")
	QueueDepth    = family(Gauge, "millrace_queue_depth", "Tasks that wait in a queue, or for one node (queue=\"node NAME\"), and may be started at once.", "queue")
	QueueNodes    = family(Gauge, "millrace_queue_nodes", "Nodes that take work from a queue.", "queue")
	UnservedTasks = family(Gauge, "millrace_queue_unserved_tasks", "Tasks that wait in a queue, or for one node (queue=\"node NAME\"), and that no node takes: none serves the queue, or none that does has their labels or handler.", "queue")
	UnservedFor   = family(Gauge, "millrace_queue_unserved_seconds", "How long some of them have waited without a node.", "queue")
	QueueClosed   = family(Gauge, "millrace_queue_closed", "1 while nothing of a queue is started because an operator has paused it (why=paused) or its window is closed (why=window), else 0; only of queues of which anything was said.", "queue", "why")
	OldestPending = family(Gauge, "millrace_task_oldest_pending_seconds", "How long the task has been pending that has waited longest.", "queue")
	TasksStuck    = family(Gauge, "millrace_tasks_stuck", "Tasks whose deadline has passed without an action, at most 1000 of a kind.", "kind")
	DeadLetters   = family(Gauge, "millrace_dead_letters", "Dead letters that were not dismissed: tasks that ended abnormally, those whose retries are used up, and unreadable messages.", "kind")
	Nodes         = family(Gauge, "millrace_nodes", "Nodes there are, by state.", "state")
)

// Of the streams, read by servers from time to time.
var (
	StoreBytes  = family(Gauge, "millrace_store_bytes", "Bytes that a stream holds; all is what the account holds.", "stream")
	StoreLimit  = family(Gauge, "millrace_store_limit_bytes", "Bytes that a stream may hold; missing if it has no bound of its own.", "stream")
	HorizonAge  = family(Gauge, "millrace_horizon_age_seconds", "Age of the oldest message that the log keeps.")
	HorizonHeld = family(Gauge, "millrace_horizon_held_seconds", "For how long something has held back the horizon of the log from what is to go: an offer, a task that runs, the size of one, a limit, a budget, the archive, or a fault; missing if nothing does.", "by")
	StoreFree   = family(Gauge, "millrace_store_disk_free_bytes", "Bytes that are free on the disk of an embedded server.")
)

// Of the limits that a server's scheduler enforces. All keys of a limit are added up.
var (
	LimitInUse   = family(Gauge, "millrace_limit_in_use", "Tasks that have a place in a limit of concurrency.", "limit")
	LimitPlaces  = family(Gauge, "millrace_limit_places", "Places of a limit of concurrency that is in use or waited for.", "limit")
	LimitWaiting = family(Gauge, "millrace_limit_waiting", "Tasks that wait for a limit.", "limit")
	// LimitBudgetUsed is the share of the most used key.
	LimitBudgetUsed = family(Gauge, "millrace_limit_budget_used_ratio", "How much of a limit's budget is used up, 1 for all of it; of several keys, the most.", "limit")
	LimitRateLeft   = family(Gauge, "millrace_limit_rate_left", "Tasks that may start at once under a limit of rate that was used lately or is waited for.", "limit")
)

// Of the loops of a server's scheduler.
var (
	SweepRepairs = family(Counter, "millrace_sweep_repairs_total", "Steps that the sweep did in place of their owner: stays 0 when nothing is wrong.", "kind")
	Looks        = family(Counter, "millrace_scheduler_looks_total", "Rounds of the scheduler's loops.", "loop", "outcome")
	LookTime     = family(Distribution, "millrace_scheduler_look_seconds", "How long a round of a loop of the scheduler took.", "loop")
	LastLook     = family(Gauge, "millrace_scheduler_last_look_timestamp_seconds", "When a loop of the scheduler last ended a round without an error.", "loop")
)

// Of a worker process.
var (
	WorkerSlots      = family(Gauge, "millrace_worker_slots", "Tasks that the worker runs (busy) and could run beside them (free).", "state")
	WorkerFetching   = family(Gauge, "millrace_worker_fetching", "1 while the worker asks for work and gets answers, else 0.")
	WorkerRenewals   = family(Counter, "millrace_worker_lease_renewals_total", "Leases that the worker extended, or tried to.", "outcome")
	WorkerHeartbeats = family(Counter, "millrace_worker_heartbeats_total", "Heartbeats that the worker stored, or tried to.", "outcome")
)

// Of the service over HTTP.
var (
	HTTPRequests  = family(Counter, "millrace_http_requests_total", "Requests over HTTP that were answered, by what they asked for and the status.", "verb", "status")
	HTTPFollowers = family(Gauge, "millrace_http_followers", "Streams that are followed over HTTP.")
	HTTPDropped   = family(Counter, "millrace_http_followers_dropped_total", "Followers over HTTP that were dropped because they took too long to take what they were sent.")
)

// Of every process.
var (
	ConnectionUp    = family(Gauge, "millrace_connection_up", "1 while a connection to NATS is up, else 0.", "connection")
	LogWritable     = family(Gauge, "millrace_log_writable", "1 while the log takes messages, else 0: nothing is recorded, no task starts or ends.")
	BuildInfo       = family(Gauge, "millrace_build_info", "Always 1; the labels say what runs.", "version", "commit", "go", "nats_server", "role")
	MonitorFailures = family(Counter, "millrace_monitor_failures_total", "Looks at the read model or the log that failed, so that figures are missing or old.", "source")
)
