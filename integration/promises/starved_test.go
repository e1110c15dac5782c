package promises

import (
	"context"
	"flag"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

var (
	burners      = flag.Int("burners", 0, "how many processes burn processor time beside TestStarved, `n`")
	starvedTasks = flag.Int("starved-tasks", 16, "how many tasks TestStarved runs, `n`")
	starvedSleep = flag.Duration("starved-sleep", 200*time.Millisecond, "how long each of them sleeps, `d`")
)

// burn starts processes that burn processor time, until stop is called.
func burn(t testing.TB, n int) (stop func()) {
	t.Helper()
	var all []*exec.Cmd
	stop = func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
		all = nil
	}
	t.Cleanup(stop)
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	return stop
}

// A starved machine does less, and does not claim and give back: all tasks end, and nearly all at their
// first attempt. How soon depends on the machine, so it is only reported.
func TestStarved(t *testing.T) {
	if *burners == 0 { // else it has the machine to itself, with those
		t.Parallel()
	}
	const silence = 3 * time.Minute // without any fact; far longer than a lease
	p := harness.New(t, 6*time.Second)
	p.Let("MILLRACE_BEAT", "2s") // as the profile dev has it
	p.Let("MILLRACE_NODE_TTL", "6s")
	if *burners > 0 {
		p.MayRepair("a starved scheduler is later than those whom it watches")
	}
	p.Server()
	c := p.Connect()
	p.Worker("w", "--slots", "8")
	from, err := c.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	feed, err := c.Store().Follow(t.Context(), from+1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	stop := burn(t, *burners)
	began := time.Now()
	want := map[task.ID]task.State{}
	sleep := []string{"sleep", strconv.FormatFloat(starvedSleep.Seconds(), 'f', -1, 64)}
	if err := c.SubmitMany(t.Context(), birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: sleep}}}, *starvedTasks, func(r client.Receipt) { want[r.ID] = task.Finished }); err != nil {
		t.Fatal(err)
	}
	starts, back, ended := 0, 0, 0
	for ended < len(want) {
		ctx, cancel := context.WithTimeout(t.Context(), silence)
		batch, err := feed.Next(ctx)
		cancel()
		if err != nil {
			t.Fatalf("after %v: %d of %d tasks have ended, of %d starts %d were given back: %v", time.Since(began), ended, len(want), starts, back, err)
		}
		for _, r := range batch {
			switch r.Fact.Type {
			case events.AttemptStarted:
				starts++
			case events.AttemptReleased, events.AttemptLost:
				back++
			case events.AttemptFinished:
				ended++
			}
		}
	}
	took := time.Since(began)
	stop()
	t.Logf("beside %d burners %d tasks of %v ended in %v: %d starts, %d given back", *burners, ended, *starvedSleep, took.Round(time.Second), starts, back)
	if back > starts/20 {
		t.Errorf("of %d starts %d were given back", starts, back)
	}
	p.Judge(c, want)
}
