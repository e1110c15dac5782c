package promises

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/chaos"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

var (
	restarts     = flag.Int("restarts", 3, "how often TestServerRestarts kills or restarts the server of each installation, `n` times")
	restartsSeed = flag.Uint64("restarts-seed", 1, "the `seed` of its choices")
)

// restarted is an installation whose server is killed and restarted under load.
type restarted struct {
	*harness.Place
	c    *client.Client
	rng  *rand.Rand
	port string
	want map[task.ID]task.State
}

// runsFile is where the witnesses write.
const runsFile = "runs"

// load submits a batch: short tasks, some that are due at the same moment, and a few that outlast
// several restarts, so that their offers are out for the second time and for the third.
func (r *restarted) load() {
	r.Helper()
	submit := func(n int, seconds float64, delay time.Duration) {
		r.Helper()
		s := birth.Submission{
			Spec:  &job.Spec{Run: &job.Run{Argv: []string{"sh", r.Path("witness"), r.Path(runsFile), "sleep", fmt.Sprintf("%.3f", seconds)}}},
			Delay: value.Duration(delay),
		}
		if err := r.c.SubmitMany(r.Context(), s, n, func(receipt client.Receipt) { r.want[receipt.ID] = task.Finished }); err != nil {
			r.Fatal(err)
		}
	}
	for range 6 {
		submit(1, 0.05+0.25*r.rng.Float64(), 0)
	}
	submit(6, 0.1, time.Duration(300+r.rng.IntN(1200))*time.Millisecond)
	if r.rng.IntN(2) == 0 {
		submit(1, 2+10*r.rng.Float64(), 0)
	}
}

// begun counts the runs that have begun.
func (r *restarted) begun() int {
	text, err := os.ReadFile(r.Path(runsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Fatal(err)
	}
	return strings.Count(string(text), "begins ")
}

// play restarts the server n times, each time when some more tasks have begun, and then waits for
// all.
func (r *restarted) play(server *harness.Process, n int) {
	r.Helper()
	for range n {
		enough := r.begun() + 1 + r.rng.IntN(9)
		r.load()
		r.Until("more tasks have begun", func() bool { return r.begun() >= enough })
		if r.rng.IntN(3) == 0 {
			server.Signal(syscall.SIGTERM)
			server.Wait()
		} else {
			server.Kill()
		}
		server = r.Server("--port", r.port)
		r.c = r.Connect()
	}
	for id, state := range r.want {
		r.Await(r.c, id, state)
	}
}

// A server that is killed or restarted under load delivers leased offers early. Nothing runs twice
// at once because of that, as the tasks themselves record, and no healthy worker loses a task.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	for _, profile := range []struct {
		name                  string
		ackWait, beat, expiry time.Duration
	}{
		{"dev", 6 * time.Second, 2 * time.Second, 6 * time.Second},
		{"prod", 30 * time.Second, 5 * time.Second, 15 * time.Second},
	} {
		t.Run(profile.name, func(t *testing.T) {
			t.Parallel()
			p := harness.New(t, profile.ackWait)
			p.Let("MILLRACE_BEAT", profile.beat.String())
			p.Let("MILLRACE_NODE_TTL", profile.expiry.String())
			p.Let("MILLRACE_FLAP_LIMIT", "0") // connections come and go more often than they may
			p.MayRepair("a server that is killed can lose the word of whoever was about to do it")
			p.Write("witness", chaos.Witness)
			server := p.Server()
			at, err := url.Parse(p.URL)
			if err != nil {
				t.Fatal(err)
			}
			r := &restarted{Place: p, c: p.Connect(), rng: rand.New(rand.NewPCG(*restartsSeed, uint64(profile.ackWait))), port: at.Port(), want: map[task.ID]task.State{}}
			var workers []*harness.Process
			for i := range 3 {
				workers = append(workers, p.Worker(fmt.Sprint("w", i), "--slots", "8"))
			}
			began := time.Now()
			r.play(server, *restarts)
			took := time.Since(began)
			for _, w := range workers {
				w.Stop()
			}

			text, err := os.ReadFile(p.Path(runsFile))
			if err != nil {
				t.Fatal(err)
			}
			all, err := chaos.ReadStints(string(text))
			if err != nil {
				t.Fatal(err)
			}
			found := chaos.Overlaps(all)
			for _, o := range found {
				t.Error(o)
			}
			if len(all) < len(r.want) {
				t.Errorf("%d runs of %d tasks were witnessed", len(all), len(r.want))
			}
			again := 0 // tasks that needed more than one attempt
			for id, records := range p.ReadLog(r.c) {
				if harness.Count(records, events.AttemptStarted) > 1 {
					again++
					t.Logf("task %s needed several attempts:\n%s", id, harness.Story(records))
				}
			}
			t.Logf("%d restarts in %v: %d tasks, %d runs, %d tasks with several attempts, %d overlaps; seed %d",
				*restarts, took.Round(time.Second), len(r.want), len(all), again, len(found), *restartsSeed)
			p.Judge(r.c, r.want)
		})
	}
}
