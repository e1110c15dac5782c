package load

// Result is the result of the runs of one plan.
type Result struct {
	Profile string  `json:"profile"`
	Rate    float64 `json:"rate"`
	Seconds float64 `json:"seconds"`
	Spacing string  `json:"arrivals"`
	// Version is the measured program's.
	Version string  `json:"version"`
	Rounds  []Round `json:"rounds"`
}

// Round is one run, on a server of its own.
type Round struct {
	// Arrivals counts the plan's arrivals, Tasks their tasks.
	Arrivals int `json:"arrivals"`
	Tasks    int `json:"tasks"`
	// Failed tasks have ended otherwise than finished, Lost ones not at all, Duplicated ones more
	// than once.
	Failed     int `json:"failed"`
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	// PerSecond is how many arrivals were completed per second, from the beginning of the load to
	// the last end.
	PerSecond float64 `json:"per_second"`
	// Start and End are from when an arrival was due to when its first task was claimed, and when
	// its last one had ended, by the log. Sent is until it was submitted: how late the load itself
	// was.
	Start Latency `json:"start_latency_ms"`
	End   Latency `json:"end_latency_ms"`
	Sent  Latency `json:"sent_late_ms"`
	// OutOfRange is how many latencies were below 0 or above an hour, and count as those.
	OutOfRange int `json:"out_of_range"`
	// Depth is the most tasks that waited for their start.
	Depth int `json:"depth"`
	// Memory and Disk are the most that the server used, in bytes. Server and Worker are the processor time
	// per task, in microseconds.
	Memory int64   `json:"server_memory"`
	Disk   int64   `json:"server_disk,omitempty"`
	Server float64 `json:"server_us"`
	Worker float64 `json:"worker_us"`
	// Every is how many seconds each of Points covers.
	Every  float64 `json:"every_seconds"`
	Points []Point `json:"points"`
}

// Point is a part of a round.
type Point struct {
	// At is when it begins, in seconds.
	At float64 `json:"at"`
	// Arrived is how many arrivals were due in it, Started and Ended how many tasks began and
	// ended.
	Arrived int `json:"arrived"`
	Started int `json:"started"`
	Ended   int `json:"ended"`
	// Start and End are for arrivals due in it, whenever they started.
	Start Latency `json:"start_latency_ms"`
	End   Latency `json:"end_latency_ms"`
	// Depth is the most tasks that waited for their start in it.
	Depth int `json:"depth"`
	// Memory is the server's, in bytes, Busy how many processors it used.
	Memory int64   `json:"server_memory"`
	Busy   float64 `json:"server_busy"`
}

// Latency holds percentiles, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}
