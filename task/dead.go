package task

import "fmt"

// Undelivered is the command that follows when an offer of a task is given up
// because it was handed out too often. The second result is false if nothing
// does: the task has moved on, or the message is no offer.
func Undelivered(t Task, offer Recorded) (Command, bool) {
	var after uint64
	switch e := offer.Event.(type) {
	case Submitted:
	case Queued:
		after = e.After
	default:
		return nil, false
	}
	switch {
	case t.Live() && t.Offer == offer.Seq:
		return Lose{Epoch: t.Epoch, Reason: "its lease ran out, and the server gave the offer up"}, true
	case t.State == Pending && t.Offered && t.Turn == after:
		return GiveUp{Reason: ReasonPoison, Detail: fmt.Sprintf("offer %d was handed out again and again, and nobody could start the task", offer.Seq)}, true
	}
	return nil, false
}
