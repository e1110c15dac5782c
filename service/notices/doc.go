// Package notices tells people what happens, without their asking.
//
// A notice is a task: its birth is durable, its id follows from what it tells, so that two servers, or one that
// was killed, make one; it waits in a queue of its own that servers work off; it is retried, and forgotten as
// any task is. So nothing of this is in a task's way, and what could not be sent is a dead letter.
//
// [Watch] looks at what failed since it looked last, and at what needs a person ([answers.Sight.Attention]),
// and plans notices. [Sender] sends them. The file of the setting notify ([Config]) says to whom and how; jobs
// name its targets. So a job can neither make a server ask an address nor read a secret of it.
package notices
