package job

import "millrace/task/value"

// MaxNeeds is how many tasks one task may need. To wait for more, need their parent.
const MaxNeeds = 256

// Rules: how many of the needed tasks must end as required.
const (
	// NeedAll: all must end as required. The first that does not decides.
	NeedAll = "all"
	// NeedAny: all must end, and at least one as required.
	NeedAny = "any"
	// NeedNone: all must end, and none in the way described.
	NeedNone = "none"
)

// The required ends.
const (
	WhenSuccess = "success" // finished
	WhenFailure = "failure" // in error or abnormal
	WhenCancel  = "cancel"  // cancelled by a person or program
	WhenTrouble = "trouble" // failure or cancel
	WhenEnd     = "end"     // in any way, including skipped
)

// The rules and required ends, as job files and the command line spell them.
var (
	NeedRules = value.WordsOf[Step]("rule")
	Whens     = value.WordsOf[StepNeed]("when")
)

// MaxInputs is the largest total size of results that one task gets as inputs, in bytes, so that
// they fit into its environment. Larger results are left out, the largest first; a program can read
// them by the task's id.
const MaxInputs = 64 << 10
