package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
)

// A submitter that dies between a birth under a chosen id and its offer leaves a task without an
// offer. The sweep places it.
func TestBirthWithoutItsOfferIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		s := w.run(t, 1)[0]
		id := task.ID(events.NewID(time.Now()))
		birth := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}}
		if _, err := w.Append(t.Context(), w.rec.Fact(id, birth), 0); err != nil {
			t.Fatal(err)
		}
		w.lists(id)
		pass(15 * time.Second)
		if now := w.task(t, id); now.State != task.Pending || !now.Offered || s.Repairs()[RepairOffer] != 1 {
			t.Errorf("it is %s, offered %t, repairs %v; want it offered by one repair", now.State, now.Offered, s.Repairs())
		}
	})
}
