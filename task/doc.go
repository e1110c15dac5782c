// Package task holds the state machine of a task as pure functions: its states; which commands
// each state allows and which fact each leaves ([Decide]); how facts add up to a state ([Evolve]);
// and what must be durable next ([Task.Owed]).
//
// It reads no clock, starts no goroutine, draws no random number and imports no package that does
// I/O: time and chance are arguments.
//
// Every rule about tasks belongs here or in a package of this folder. What jobs, limits, queues and
// breakers say lies below this package. Around it lie the questions that need a task: what a
// submission becomes (birth), parents and children (family), whether a node starts what it is
// offered (choice), unique keys (unique), and which component must act next (duties).
//
// It also holds the rules of named definitions (jobs, schedules, calendars, bundles,
// tokens) as pure functions: the effect of each change, which change may follow, and when to
// rewrite a copy. Decisions on the ticks of a schedule are facts about its definition, too. It does
// not parse the definitions.
package task
