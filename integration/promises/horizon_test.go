package promises

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/embed"
	jetnames "millrace/events/jet/names"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// forgetful is a place whose log forgets what ended a second ago, with a NATS server of its own, and
// servers that are killed and started again.
type forgetful struct {
	*harness.Place
	c       *client.Client
	servers map[string]*harness.Process
	moved   map[uint64]bool // horizons that were seen
	waves   int
}

func newForgetful(t *testing.T) *forgetful {
	p := &forgetful{Place: harness.New(t, 2*time.Second), servers: map[string]*harness.Process{}, moved: map[uint64]bool{}}
	p.MayRepair("servers and workers are killed")
	p.Let("MILLRACE_KEEP_AGE", "1s")
	p.Let("MILLRACE_SWEEP", "100ms")
	return p
}

// serve starts a server with a read model of its own.
func (p *forgetful) serve(name string) {
	p.Helper()
	s := p.Start("server", "--data", name, "--http", "off")
	s.Until("server "+name+" serves", func() bool { return strings.Contains(s.Said.String(), "Millrace serves ") })
	p.servers[name] = s
}

// wave makes many messages that are soon to be forgotten: tasks that nobody runs, and that are
// cancelled.
func (p *forgetful) wave() {
	p.Helper()
	err := p.c.SubmitMany(p.Context(), birth.Submission{Spec: &job.Spec{Handler: "noop"}, Queue: "nobody"}, 700, nil)
	if err != nil {
		p.Fatal(err)
	}
	p.Until("what nobody runs is cancelled", func() bool { return p.Try("queue", "purge", "nobody", "--yes").Code == 0 })
	p.waves++
}

// horizon asks what the log keeps; false while no server answers.
func (p *forgetful) horizon() (h client.Horizon, ok bool) {
	r := p.Try("horizon", "-o", "json")
	if r.Code != 0 || json.Unmarshal([]byte(r.Out), &h) != nil {
		return h, false
	}
	if h.Step == "purged" {
		p.moved[h.Below] = true
	}
	return h, true
}

// passes waits until the horizon is above a sequence.
func (p *forgetful) passes(seq uint64) {
	p.Helper()
	said := ""
	if !harness.Poll(4*harness.Patience, func() bool { // a server that does not go first looks every 18 s
		h, ok := p.horizon()
		said = fmt.Sprintf("%+v", h)
		return ok && h.First > seq
	}) {
		p.Fatalf("the horizon does not pass %d: %s", seq, said)
	}
}

// ran returns how often the program of each task has begun, by task and epoch, as the programs
// themselves have written.
func (p *forgetful) ran() map[string]map[string]int {
	p.Helper()
	text, err := os.ReadFile(p.Path("ran"))
	if err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	all := map[string]map[string]int{}
	for line := range strings.Lines(string(text)) {
		id, epoch, _ := strings.Cut(strings.TrimSpace(line), " ")
		if all[id] == nil {
			all[id] = map[string]int{}
		}
		all[id][epoch]++
	}
	return all
}

// writes is a program that says that it runs.
func (p *forgetful) writes() string {
	return "echo $MILLRACE_TASK $MILLRACE_EPOCH >> " + filepath.Join(p.Dir, "ran")
}

var horizons = flag.Int("horizons", 0, "how many horizons TestHorizons and TestHorizonsOfThree go through; 0 for 2, or with -long 8")

// broker is the NATS of a place, which can be broken.
type broker interface {
	// breaks kills a server of it, and starts that again.
	breaks()
}

// lone is one NATS server, a process of its own.
type lone struct {
	*otherNATS
	port string
}

func (n lone) breaks() {
	_ = n.cmd.Process.Kill() // it runs
	n.stop()
	n.start(n.port)
}

// trio are three servers, of which the leader of the log goes.
type trio struct {
	p *forgetful
	*embed.Cluster
}

func (c trio) breaks() {
	c.p.Helper()
	at := -1
	c.p.Until("the log has a leader", func() bool {
		at = slices.IndexFunc(c.Servers, func(ns *server.Server) bool { return ns.JetStreamIsStreamLeader("$G", jetnames.LogStream) })
		return at >= 0
	})
	c.Servers[at].Shutdown()
	c.Servers[at].WaitForShutdown()
	if err := c.Restart(at); err != nil {
		c.p.Fatal(err)
	}
	c.p.URL = c.URL()
	c.p.Until("all have the log again", func() bool {
		return !slices.ContainsFunc(c.Servers, func(ns *server.Server) bool { return !ns.JetStreamIsStreamCurrent("$G", jetnames.LogStream) })
	})
}

// What has ended leaves the log again and again for an archive, while servers, workers, who submits, and
// the NATS server are killed. What lives goes on as if nothing had happened.
func TestHorizons(t *testing.T) {
	t.Parallel()
	p := newForgetful(t)
	n := lone{&otherNATS{p: p.Place, store: t.TempDir()}, strconv.Itoa(testkit.Port(t))}
	n.start(n.port)
	defer func() { n.stop() }()
	p.horizons(n, testkit.Size(2, 8))
}

// The same with three NATS servers, of which the one that leads the log is lost.
func TestHorizonsOfThree(t *testing.T) {
	t.Parallel()
	p := newForgetful(t)
	n := trio{p, startCluster(t)}
	p.URL = n.URL()
	p.Let("MILLRACE_REPLICAS", "3")
	p.horizons(n, testkit.Size(2, 8))
}

// drillSlots is how many attempts one killed process makes again at most.
const drillSlots = 4

// horizons goes through many horizons. The first judge is what the tasks' own programs have written:
// each task has run, under one epoch, or under several if processes were killed. The second is the
// archive with the log: it has all that was written, and what was promised.
func (p *forgetful) horizons(n broker, usual int) {
	p.Let("MILLRACE_ARCHIVE", p.Path("past"))
	p.serve("one")
	p.serve("two")
	worker := p.Worker("w", "--slots", strconv.Itoa(drillSlots))
	p.c = p.Connect()
	waits := p.Submit(p.writes(), "--signal", "go")
	later := p.Submit(p.writes(), "--delay", testkit.Size("8s", "20s"))
	unique := p.Submit(p.writes(), "--signal", "go", "--unique", "only")
	want, kills, breaks := []task.ID{waits, later, unique}, 0, 0
	for wave := 0; len(p.moved) < cmp.Or(*horizons, usual); wave++ {
		if wave > testkit.Size(20, 1000) {
			p.Fatalf("after %d waves the log has %d horizons", wave, len(p.moved))
		}
		for range 3 {
			want = append(want, p.Submit(p.writes()))
		}
		want = append(want, p.cutOff())
		p.wave()
		h, _ := p.horizon()
		switch victim := rand.IntN(5); {
		case wave == 0, victim == 0: // a server, in the middle of whatever it does
			name := []string{"one", "two"}[rand.IntN(2)]
			p.servers[name].Kill()
			p.serve(name)
		case wave == 1, victim == 1:
			n.breaks()
			breaks++
		case *testkit.Long && victim == 2:
			worker.Kill()
			kills++
			worker = p.Worker("w", "--slots", strconv.Itoa(drillSlots))
		}
		p.passes(h.First)
	}
	p.passes(0)
	taken := p.Try("run", "--shell", p.writes(), "--unique", "only")
	if taken.Code == 0 || !strings.Contains(taken.Errs, string(unique)) {
		p.Errorf("the key of a task that was carried is not taken: %+v", taken)
	}
	for _, id := range []task.ID{waits, unique} {
		p.Run("task", "approve", string(id))
	}
	p.Until("all have run", func() bool {
		ran := p.ran()
		return !slices.ContainsFunc(want, func(id task.ID) bool { return len(ran[string(id)]) == 0 })
	})
	extra := 0
	for id, epochs := range p.ran() {
		for epoch, times := range epochs {
			if times != 1 {
				p.Errorf("task %s has run %d times under epoch %s", id, times, epoch)
			}
		}
		extra += len(epochs) - 1
	}
	if most := (kills + breaks) * drillSlots; extra > most {
		p.Errorf("%d attempts were made again, and a worker was killed %d times, NATS %d times", extra, kills, breaks)
	}
	p.agrees(want)
	p.Logf("%d horizons, %d waves, %d tasks, %d kills of workers, %d of NATS, %d attempts again", len(p.moved), p.waves, len(want), kills, breaks, extra)
}

// cutOff submits a task, is killed meanwhile, and does it again under the same id.
func (p *forgetful) cutOff() task.ID {
	p.Helper()
	id := events.NewID(time.Now())
	args := []string{"run", "--shell", p.writes(), "--id", id}
	cut := p.Start(args...)
	<-time.After(rand.N(60 * time.Millisecond)) // any moment is a good one
	cut.Kill()
	p.Run(args...)
	return task.ID(id)
}

// agrees holds what the programs have written against the archive and the log together, and has the
// program judge them.
func (p *forgetful) agrees(want []task.ID) {
	p.Helper()
	p.Until("nothing is open", func() bool {
		r := p.Try("task", "ls", "--state", "active", "--names")
		return r.Code == 0 && r.Out == ""
	})
	for _, s := range p.servers {
		s.Stop() // now nothing moves
	}
	began, ended := map[string]bool{}, map[task.ID]map[uint64]bool{}
	for _, text := range []string{p.Run("archive", "export"), p.Run("events", "export")} { // both may have a message
		reader, err := events.NewExportReader(strings.NewReader(text))
		if err != nil {
			p.Fatal(err)
		}
		for {
			r, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				p.Fatal(err)
			}
			switch r.Fact.Type {
			case events.AttemptStarted:
				began[fmt.Sprint(r.Fact.Task, " ", r.Seq)] = true
			case events.AttemptFinished:
				if ended[r.Fact.Task] == nil {
					ended[r.Fact.Task] = map[uint64]bool{}
				}
				ended[r.Fact.Task][r.Seq] = true
			}
		}
	}
	for id, epochs := range p.ran() {
		for epoch := range epochs {
			if !began[id+" "+epoch] {
				p.Errorf("task %s has run under epoch %s, which no event began", id, epoch)
			}
		}
	}
	for _, id := range want {
		if len(ended[id]) != 1 {
			p.Errorf("task %s has finished %d times", id, len(ended[id]))
		}
	}
	if r := p.Try("verify", "--settled", "--archive", p.Path("past")); r.Code > 1 || !strings.Contains(r.Out, "0 violations") {
		p.Errorf("%+v", r)
	}
}

// What lay before the horizon starts nothing when somebody puts it into the log again, and no task is
// made under an id from there.
func TestForgottenMessagesStartNothing(t *testing.T) {
	t.Parallel()
	p := newForgetful(t)
	p.NATS()
	p.serve("one")
	p.Worker("w")
	p.c = p.Connect()
	named := task.ID("01JNA0H0R1Z0N0000000000000")
	old := []task.ID{p.Submit(p.writes()), p.Submit(p.writes(), "--delay", "1s"), p.Submit(p.writes(), "--id", string(named)), p.Submit(p.writes()+"; exit 1", "--retries", "1")}
	for _, id := range old {
		p.Until("it has ended", func() bool { return p.State(p.c, id).State.Terminal() })
	}
	nc := p.Dial()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log, err := js.Stream(p.Context(), jetnames.LogStream)
	if err != nil {
		t.Fatal(err)
	}
	var again []*nats.Msg
	info, err := log.Info(p.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := log.GetMsg(p.Context(), seq)
		if err != nil {
			continue // a probe that was removed
		}
		for _, id := range old {
			if strings.HasSuffix(m.Subject, string(id)) {
				again = append(again, &nats.Msg{Subject: m.Subject, Header: nats.Header{"Mr-Type": m.Header["Mr-Type"]}, Data: m.Data})
			}
		}
	}
	before := p.ran()
	for !harness.Poll(2*time.Second, func() bool { h, ok := p.horizon(); return ok && h.First > info.State.LastSeq }) {
		p.wave()
	}
	for _, id := range old {
		if _, err := p.c.Task(p.Context(), id); err == nil {
			t.Errorf("task %s is still there", id)
		}
	}
	if r := p.Try("run", "--shell", p.writes(), "--id", string(named)); r.Code == 0 || !strings.Contains(r.Errs, "older than what the log keeps") {
		t.Errorf("a task under an old id: %+v", r)
	}
	for _, m := range again {
		if strings.HasPrefix(m.Subject, jetnames.ChainPrefix) && !strings.Contains(string(m.Data), `"task.submitted"`) {
			continue // with all of its chain it is a task that has ended
		}
		if _, err := js.PublishMsg(p.Context(), m); err != nil {
			t.Errorf("put %s again: %v", m.Subject, err)
		}
	}
	due := string(old[1])
	timer := &nats.Msg{Subject: jetnames.TimerPrefix + due, Header: nats.Header{
		"Mr-Type": {"task.due"}, "Nats-Schedule": {"@at " + time.Now().UTC().Format(time.RFC3339Nano)}, "Nats-Schedule-Target": {jetnames.DuePrefix + "default.5." + due},
	}, Data: fmt.Appendf(nil, `{"type":"task.due","v":1,"id":"01JNA0FACT0000000000000000","at":"2026-03-01T12:00:00Z","task":"%s","after":7,"route":"default.5","due":"2026-03-01T12:00:00Z"}`, due)}
	if _, err := js.PublishMsg(p.Context(), timer); err != nil {
		t.Errorf("set its timer again: %v", err)
	}
	// A task behind all that has run when the worker has dealt with it.
	last := p.Submit(p.writes())
	p.Await(p.c, last, task.Finished)
	p.Until("nothing waits", func() bool {
		r := p.Try("task", "ls", "--state", "pending", "--state", "running", "--names")
		return r.Code == 0 && r.Out == ""
	})
	for id, epochs := range p.ran() {
		if was := before[id]; id != string(last) && len(was) != len(epochs) {
			t.Errorf("task %s has run again: %v, before %v", id, epochs, was)
		}
	}
}
