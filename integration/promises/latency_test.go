package promises

import (
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// A task starts within 250 ms on an idle installation, at the median, and each within 5 s under load,
// beside what this machine withholds from the processes that take part.
func TestTasksStartSoon(t *testing.T) {
	const idle, loaded, hands = 250 * time.Millisecond, 5 * time.Second, 5
	p := harness.New(t, time.Minute)
	p.Server()
	c := p.Connect()
	p.Worker("w", "--slots", "8")
	starved := testkit.Starvation(t)
	took := func(id task.ID) time.Duration {
		p.Await(c, id, task.Finished)
		records := p.History(c, id)
		return p.Find(records, events.AttemptStarted).Stored.Sub(p.Find(records, events.TaskSubmitted).Stored)
	}
	var waits []time.Duration
	for range 21 {
		waits = append(waits, took(p.SubmitAs(c, birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"true"}}}})))
	}
	slices.Sort(waits)
	if p50, most := waits[len(waits)/2], idle+hands*starved(); p50 > most {
		t.Errorf("idle, half of the tasks start after %v or later; want %v", p50, most)
	}
	var ids []task.ID
	busy := birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"sleep", "0.2"}}}}
	if err := c.SubmitMany(p.Context(), busy, 64, func(r client.Receipt) { ids = append(ids, r.ID) }); err != nil {
		t.Fatal(err)
	}
	worst := time.Duration(0)
	for _, id := range ids {
		worst = max(worst, took(id))
	}
	if most := loaded + time.Duration(len(ids)/8)*hands*starved(); worst > most {
		t.Errorf("under load a task starts after %v; want %v", worst, most)
	}
	t.Logf("idle p50 %v, under load worst %v; the machine withheld up to %v", waits[len(waits)/2], worst, starved())
}
