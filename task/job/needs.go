package job

// MaxNeeds is how many tasks one may need itself. To wait for more, need their parent.
const MaxNeeds = 256

// How many of the tasks that one needs have to end as they are meant to.
const (
	// NeedAll: all have to end as they are meant to. The first that does not decides.
	NeedAll = "all"
	// NeedAny: all have to end, and at least one as it is meant to.
	NeedAny = "any"
	// NeedNone: all have to end, and none as described.
	NeedNone = "none"
)

// How a task can be meant to end.
const (
	WhenSuccess = "success" // finished
	WhenFailure = "failure" // in error or abnormal
	WhenCancel  = "cancel"  // cancelled by somebody
	WhenTrouble = "trouble" // failure or cancel
	WhenEnd     = "end"     // in any way, skipped included
)

// Rules and ways to end, as a job file and the command line spell them.
var (
	NeedRules = []string{NeedAll, NeedAny, NeedNone}
	Whens     = []string{WhenSuccess, WhenFailure, WhenCancel, WhenTrouble, WhenEnd}
)

// MaxInputs is how many bytes of results are passed on to one task, so that they
// fit into its environment. What is more is left out, the largest first; it can
// be asked for by the task's id.
const MaxInputs = 64 << 10
