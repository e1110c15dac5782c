package value

// Born is the reason of an offer for a task whose birth lies on its chain.
const Born = "born"

// Reason codes of terminal states, and of the facts that lead to them.
const (
	Exit     = "exit"        // the process ended with a code other than 0
	Timeout  = "timeout"     // ran longer than timeout.run
	Memory   = "memory"      // was ended for using too much memory
	Killed   = "killed"      // ended by a signal that Millrace did not send
	System   = "system"      // the node could not start or serve it
	Network  = "network"     // the program reported a network failure
	Task     = "task"        // the handler or program reported its own error
	User     = "user"        // a person asked, or the program reports invalid input
	Expired  = "expired"     // was not started in time
	Lost     = "lost"        // its node vanished and its end is unknown
	Poison   = "poison"      // it took its node down more often than allowed
	Limit    = "limit"       // a limit had no place for it
	Unplaced = "unplaceable" // no node can ever run it
	Breaker  = "breaker"     // its job's breaker is open
	Window   = "window"      // its window is closed
	PerNode  = "per_node"    // the node already runs as many of its kind as it may
	Step     = "step"        // its function waits in a step
	Skipped  = "skipped"     // its needs ended otherwise than required
	Rejected = "rejected"    // a person refused the approval that it waited for
	Silent   = "silent"      // a monitor heard no ping in time
)
