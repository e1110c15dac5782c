package promises

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/embed"
	jetnames "millrace/events/jet/names"
	"millrace/events/jet/rights"
	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// relay passes connections on to a NATS server, and later to another one that has taken its place.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	to       string              // guarded by mu
	open     map[net.Conn]string // guarded by mu; where each goes
}

func newRelay(t testing.TB, to *embed.Server) (r *relay, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r = &relay{listener: listener, open: map[net.Conn]string{}}
	address = r.lead(t, to)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.cut("")
		all.Wait()
	})
	return r, address
}

// lead has all connections go to a server from now on, and returns the URL by which it is reached.
func (r *relay) lead(t testing.TB, to *embed.Server) string {
	t.Helper()
	at := reached(t, to)
	r.mu.Lock()
	r.to = at.Host
	r.mu.Unlock()
	r.cut(at.Host)
	at.Host = r.listener.Addr().String()
	return at.String()
}

// cut ends the connections to all other servers.
func (r *relay) cut(keep string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, to := range r.open {
		if to != keep {
			_ = c.Close()
		}
	}
}

func (r *relay) pass(from net.Conn) {
	defer from.Close()
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.open[server] = to
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, server)
	}()
	go func() {
		_, _ = io.Copy(server, from)
		_ = server.Close()
	}()
	_, _ = io.Copy(from, server)
}

// reached is the URL of a server of [natsAt].
func reached(t testing.TB, s *embed.Server) *url.URL {
	t.Helper()
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("ann", "secret")
	return at
}

// natsAt starts a NATS server in this process, in a folder of the place.
func natsAt(p *harness.Place, name string) *embed.Server {
	p.Helper()
	s, err := embed.Start(embed.Config{Dir: p.Path(name), Auth: embed.Auth{User: "ann", Password: "secret"}})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(s.Stop)
	return s
}

// serving starts a server on the place's NATS server.
func serving(p *harness.Place, data string) *harness.Process {
	p.Helper()
	s := p.Start("server", "--data", data)
	s.Until("it serves", func() bool { return strings.Contains(s.Said.String(), "Millrace serves") })
	return s
}

// drilled is what a backup under load is held against.
type drilled struct {
	ids  []string // acknowledged before it began
	runs task.ID  // ran then, and goes on for long
	late task.ID  // was to start later
}

// The drill: a backup of an installation that works, on one NATS server, is restored into a data
// directory and on three NATS servers. What was acknowledged before it began is there and ends, timers
// fire, schedules go on, output and files are there, and verify finds nothing.
func TestBackupDrill(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("timers that fired after the backup")
	p.URL = reached(p, natsAt(p, "old")).String()
	server := serving(p, "model")
	workers := []*harness.Process{p.Worker("w1", "--slots", "2"), p.Worker("w2", "--slots", "2")}
	if err := os.Mkdir(p.Path("greeting"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.Write("greeting/a.txt", "hello")
	p.Run("files", "push", "greeting", "--name", "greeting")
	p.Write("job.yaml", "name: steady\nrun: echo from a job\nretry: {max: 2, min: 1s}\n")
	p.Run("job", "apply", "job.yaml")
	p.Run("schedule", "add", "often", "steady", "--every", "1s")
	// It goes first when its attempt is lost: there is a deadline for that, and the load may take longer.
	is := drilled{runs: p.Submit(`until [ -e "`+p.Path("go")+`" ]; do sleep 0.1; done; echo over`, "--priority", "9"), late: p.Submit("echo late", "--delay", "8s")}
	c := p.Connect()
	p.Await(c, is.runs, task.Running)

	// The load goes on until the old installation is gone. It leaves so many tasks waiting, and no more,
	// however long the backup takes: what is restored has to run them first.
	const waiting = 60
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var over sync.WaitGroup
	over.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			s := birth.Submission{Job: "steady"}
			if i%3 > 0 {
				s = birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"echo", strconv.Itoa(i)}}}}
			}
			id, err := c.Submit(ctx, s)
			if err != nil {
				continue
			}
			mu.Lock()
			is.ids = append(is.ids, string(id.ID))
			first := task.ID(is.ids[max(len(is.ids)-waiting, 0)])
			mu.Unlock()
			if i >= waiting {
				_, _ = c.Wait(ctx, first) // the next one is submitted anyhow
			}
		}
	})
	known := func() int { mu.Lock(); defer mu.Unlock(); return len(is.ids) }
	p.Until("there is something to save", func() bool { return known() > 200 })
	var before []string
	for meanwhile, tries := 0, 0; meanwhile < 5; tries++ { // a slow load may rest while a backup is made
		if tries == 10 {
			t.Fatalf("only %d tasks were submitted while a backup was made", meanwhile)
		}
		if err := os.RemoveAll(p.Path("saved")); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		before = append(slices.Clone(is.ids), string(is.runs), string(is.late))
		mu.Unlock()
		p.Run("backup", "saved")
		meanwhile = known() + 2 - len(before)
	}
	stop()
	over.Wait()
	for _, s := range append(workers, server) {
		s.Kill()
	}
	p.Write("ids.txt", strings.Join(before, "\n")+"\n")
	if r := p.Try("restore", "saved", "--check"); r.Code != 0 || !strings.Contains(r.Errs, "saved is whole") {
		t.Errorf("%+v", r)
	}

	p.URL = ""
	p.Run("restore", "saved", "--data", harness.Data)
	one := p.Dev("--name", "w3", "--slots", "4")
	judgeDrill(p, is)
	one.Stop()
	if err := os.Remove(p.Path("go")); err != nil {
		t.Fatal(err)
	}

	p.URL = startCluster(t).URL()
	p.Let("MILLRACE_REPLICAS", "3")
	p.Run("restore", "saved")
	server = serving(p, "model") // with the read model of the old log, which it makes again
	worker := p.Worker("w4", "--slots", "4")
	judgeDrill(p, is)

	// From three back to one.
	p.Until("a backup is made", func() bool { // a cluster may elect a leader meanwhile
		if err := os.RemoveAll(p.Path("saved3")); err != nil {
			t.Fatal(err)
		}
		return p.Try("backup", "saved3").Code == 0
	})
	worker.Stop()
	server.Stop()
	p.URL = ""
	p.Let("MILLRACE_REPLICAS", "1")
	p.Run("restore", "saved3", "--data", "data3")
	p.URL = ""
	again := p.Start("dev", "--data", "data3", "--port", "0", "--name", "w5")
	again.Until("it is ready", func() bool { return p.Exists("data3/nats.url") })
	text, err := os.ReadFile(p.Path("data3/nats.url"))
	if err != nil {
		t.Fatal(err)
	}
	p.URL = strings.TrimSpace(string(text))
	p.Run("run", "--wait", "--", "true")
	if r := p.Try("verify", "--settled", "--acknowledged", "ids.txt"); r.Code > 1 {
		t.Errorf("%+v", r)
	}
}

// judgeDrill waits until a restored installation has done its work, and judges it.
func judgeDrill(p *harness.Place, is drilled) {
	p.Helper()
	c := p.Connect()
	began := p.Await(c, is.runs, task.Running)
	p.Until("it was taken over", func() bool { began = p.State(c, is.runs); return began.Attempt == 2 })
	p.Write("go", "")
	p.Await(c, is.runs, task.Finished)
	p.Await(c, is.late, task.Finished)
	if said := p.Run("task", "logs", string(is.runs)); said != "over" {
		p.Errorf("the task that was taken over has printed %q", said)
	}
	if said := p.Run("files", "ls", "greeting"); !strings.Contains(said, "greeting") {
		p.Errorf("files: %s", said)
	}
	p.Run("files", "verify", "greeting")
	p.Until("the schedule goes on", func() bool {
		said := p.Run("schedule", "show", "often", "-o", "json")
		return strings.Contains(said, `"next"`)
	})
	p.Run("schedule", "pause", "often")
	p.Until("all has ended", func() bool { return p.Run("task", "ls", "--state", "active", "--names") == "" })
	r := p.Try("verify", "--settled", "--acknowledged", "ids.txt")
	p.Until("verify can read the log", func() bool { // a cluster may elect a leader meanwhile
		if strings.HasPrefix(r.Out, "UNKNOWN") {
			r = p.Try("verify", "--settled", "--acknowledged", "ids.txt")
		}
		return !strings.HasPrefix(r.Out, "UNKNOWN")
	})
	if r.Code > 1 || !strings.Contains(r.Out, "0 violations") {
		p.Errorf("%+v", r)
	}
}

// bulk stores so many records of a megabyte, so that saving and restoring them takes a while.
func bulk(p *harness.Place, n int) {
	p.Helper()
	body := make([]byte, 1<<20)
	chance, js := rand.NewChaCha8([32]byte{}), p.JetStream()
	for range n {
		_, _ = chance.Read(body) // it always can
		if _, err := js.Publish(p.Context(), jetnames.DataPrefix+"bulk", body); err != nil {
			p.Fatal(err)
		}
	}
}

// A backup or a restore that is killed at any moment leaves nothing that is taken for a whole one, and
// can be done again. So does a backup onto a full disk.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.URL = reached(p, natsAt(p, "old")).String()
	serving(p, "model")
	w := p.Worker("w1")
	p.Run("run", "--wait", "--", "echo", "hello")
	w.Stop()
	bulk(p, 60)

	data := jetnames.DataStream + "/stream.tar.s2"
	p.Until("one is killed in time", func() bool {
		if err := os.RemoveAll(p.Path("cut")); err != nil {
			t.Fatal(err)
		}
		cut := p.Start("backup", "cut")
		p.Until("it writes records", func() bool { return p.Exists("cut/" + data) })
		cut.Kill()
		return !p.Exists("cut/SHA256SUMS")
	})
	if r := p.Try("restore", "cut", "--check"); r.Code != 2 || !strings.Contains(r.Errs, "it was not finished") {
		t.Errorf("of a killed one: %+v", r)
	}
	if r := p.Try("backup", "cut"); r.Code != 5 || !strings.Contains(r.Errs, "this folder is not empty") {
		t.Errorf("into the folder of a killed one: %+v", r)
	}
	full := exec.Command("sh", "-c", "ulimit -f 1000; exec millrace backup full")
	full.Dir, full.Env = p.Dir, p.CommandEnv()
	if said, err := full.CombinedOutput(); full.ProcessState.ExitCode() != 1 || !strings.Contains(string(said), "there is no backup") || p.Exists("full") {
		t.Errorf("onto a full disk: %v, %s", err, said)
	}
	p.Run("backup", "saved")
	text, err := os.ReadFile(p.Path("saved/" + data))
	if err != nil {
		t.Fatal(err)
	}
	changed := slices.Clone(text)
	changed[len(text)/2] ^= 1
	p.URL = reached(p, natsAt(p, "now")).String()
	if err := os.WriteFile(p.Path("saved/"+data), changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := p.Try("restore", "saved"); r.Code != 2 || !strings.Contains(r.Errs, data+" is not as it was written") {
		t.Errorf("of a damaged one: %+v", r)
	}
	if err := os.WriteFile(p.Path("saved/"+data), text, 0o600); err != nil {
		t.Fatal(err)
	}

	js := p.JetStream()
	if all := js.StreamNames(t.Context()); len(all.Name()) > 0 {
		t.Error("it has written something of a damaged one")
	}
	p.Until("one is killed in time", func() bool {
		all := js.StreamNames(t.Context())
		for name := range all.Name() {
			if err := js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		cut := p.Start("restore", "saved")
		p.Until("it writes records", func() bool {
			s, err := js.Stream(t.Context(), jetnames.DataStream)
			return err == nil && s.CachedInfo().State.Msgs > 1
		})
		cut.Kill()
		log, err := js.Stream(t.Context(), jetnames.LogStream)
		return err == nil && log.CachedInfo().Config.Metadata["millrace.restoring"] != ""
	})
	for _, command := range []string{"server --data model2", "task ls"} {
		if r := p.Try(strings.Fields(command)...); r.Code != 5 || !strings.Contains(r.Errs, "being restored from a backup") {
			t.Errorf("millrace %s after a killed restore: %+v", command, r)
		}
	}
	if r := p.Try("restore", "saved"); r.Code != 0 || !strings.Contains(r.Errs, "a restore was cut off here") {
		t.Fatalf("once more: %+v", r)
	}
	if r := p.Try("restore", "saved"); r.Code != 5 || !strings.Contains(r.Errs, "there is a log on this NATS server already") {
		t.Errorf("a third time: %+v", r)
	}
	serving(p, "model2")
	p.Worker("w2")
	p.Run("run", "--wait", "--", "echo", "hello again")
	s, err := js.Stream(t.Context(), jetnames.DataStream)
	if err != nil || s.CachedInfo().State.Msgs != 60 {
		t.Errorf("the records: %v", err)
	}

	// The NATS server is killed in the middle.
	n := &otherNATS{p: p}
	p.Until("one is killed in time", func() bool {
		n.store = t.TempDir()
		n.start("-1")
		js := p.JetStream()
		cut := p.Start("restore", "saved")
		p.Until("it writes records", func() bool {
			s, err := js.Stream(t.Context(), jetnames.DataStream)
			return err == nil && s.CachedInfo().State.Msgs > 1
		})
		_ = n.cmd.Process.Kill() // it runs
		cut.Kill()
		n.stop()
		n.start("-1")
		r := p.Try("restore", "saved")
		if r.Code != 0 {
			n.stop()
		}
		return r.Code == 0 && strings.Contains(r.Errs, "a restore was cut off here")
	})
	defer n.stop()
	if r := p.Try("restore", "saved"); r.Code != 5 {
		t.Errorf("once more after the NATS server was killed: %+v", r)
	}

	p.URL = ""
	cut := p.Start("restore", "saved", "--data", harness.Data)
	p.Until("it has begun", func() bool { return p.Exists(harness.Data + "/importing") })
	cut.Kill()
	if !p.Exists(harness.Data + "/nats") { // else it was faster
		p.Run("restore", "saved", "--data", harness.Data)
	}
	if r := p.Try("restore", "saved", "--data", harness.Data); r.Code != 5 {
		t.Errorf("into a directory with data: %+v", r)
	}
	p.Dev()
	p.Run("run", "--wait", "--", "echo", "hello there")
	if r := p.Try("verify"); r.Code > 1 {
		t.Errorf("%+v", r)
	}
}

// A worker of the old installation lives on, and reaches the restored one. It held a lease when the
// backup was made, and it has begun a task since. Others have both tasks now: what it says of them
// changes nothing, although the second attempt was the next fact in either log.
func TestOldWorkerMeetsRestoredLog(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 8*time.Second)
	p.Let("MILLRACE_NODE_TTL", "8s") // a starved machine stores heartbeats late, and w3 has to keep its attempts
	p.MayRepair("timers that fired after the backup")
	old := natsAt(p, "old")
	r, address := newRelay(t, old)
	p.URL = address
	server := serving(p, "model")
	first := p.Worker("w1")
	c := p.Connect()
	line := `until [ -e "` + p.Path("go-") + `$MILLRACE_NODE" ]; do sleep 0.1; done`
	leased := p.Submit(line)
	p.Await(c, leased, task.Running)
	waiting := p.Submit(line, "--queue", "other")
	p.Run("backup", "saved")

	second := p.Worker("w2", "--queue", "other")
	begun := p.Await(c, waiting, task.Running)
	server.Stop()

	now := natsAt(p, "now")
	p.URL = reached(p, now).String()
	if r := p.Try("restore", "saved"); r.Code != 0 || !strings.Contains(r.Errs, "holds the log up to #") {
		t.Fatalf("%+v", r)
	}
	serving(p, "model2")
	p.Worker("w3", "--queue", "other", "--queue", "default")
	c = p.Connect()
	var epochs []uint64
	for _, id := range []task.ID{leased, waiting} {
		var is task.Task
		p.Until("w3 has the task", func() bool { is = p.State(c, id); return is.State == task.Running && is.Node == "w3" })
		epochs = append(epochs, is.Epoch)
	}
	if epochs[1] == begun.Epoch {
		t.Errorf("the attempt on w3 has the epoch %d, as the one on w2 had", begun.Epoch)
	}
	r.lead(t, now)
	p.Write("go-w1", "")
	p.Write("go-w2", "")
	for name, w := range map[string]*harness.Process{"w1": first, "w2": second} {
		w.Until(name+" has heard that its attempt counts no more", func() bool {
			return strings.Contains(w.Said.String(), "result came too late")
		})
	}
	for i, id := range []task.ID{leased, waiting} {
		if is := p.State(c, id); is.State != task.Running || is.Epoch != epochs[i] {
			t.Errorf("task %s is %s on %s, and its attempt on w3 was to go on\n%s", id, is.State, is.Node, harness.Story(p.History(c, id)))
		}
	}
	p.Write("go-w3", "")
	for i, id := range []task.ID{leased, waiting} {
		if is := p.Await(c, id, task.Finished); is.Node != "w3" || is.Epoch != epochs[i] {
			t.Errorf("task %s has ended on %s\n%s", id, is.Node, harness.Story(p.History(c, id)))
		}
		if n := harness.Count(p.History(c, id), events.AttemptFinished); n != 1 {
			t.Errorf("task %s has %d results", id, n)
		}
	}
	if r := p.Try("verify", "--settled"); r.Code > 1 {
		t.Errorf("%+v", r)
	}
}

// A backup is restored into another account of the same NATS server, by the users of the servers, who
// may do that and nobody else.
func TestBackupByRole(t *testing.T) {
	t.Parallel()
	g := guard(t, accountFor("saved", "w1"), accountFor("restored", "w1"))
	as := func(p *harness.Place, realm string, role rights.Role, node string) {
		p.Let("NATS_URL", g.ns.ClientURL())
		for _, v := range g.as(roleUser(realm, role, node)) {
			name, value, _ := strings.Cut(v, "=")
			p.Let(name, value)
		}
	}
	p := harness.New(t, 2*time.Second)
	as(p, "saved", rights.Server, "")
	serving(p, "model")
	as(p, "saved", rights.Worker, "w1")
	w := p.Worker("w1")
	as(p, "saved", rights.Operator, "")
	p.Run("run", "--wait", "--", "true")
	ended := p.Submit("echo waits", "--queue", "nobody")
	w.Stop()
	g.unrefused(t, "saved")
	for _, role := range []rights.Role{rights.Operator, rights.Viewer} {
		as(p, "saved", role, "")
		if r := p.Try("backup", "never"); r.Code != 5 || p.Exists("never") {
			t.Errorf("%s: %+v", role, r)
		}
	}
	as(p, "saved", rights.Server, "")
	p.Run("backup", "backup")
	as(p, "restored", rights.Operator, "")
	if r := p.Try("restore", "backup"); r.Code != 5 || !strings.Contains(r.Errs, "`millrace nats permissions` prints what each role needs") {
		t.Errorf("an operator: %+v", r)
	}
	as(p, "restored", rights.Server, "")
	p.Run("restore", "backup")
	serving(p, "model2")
	as(p, "restored", rights.Worker, "w1")
	p.Worker("w1", "--queue", "nobody")
	as(p, "restored", rights.Operator, "")
	p.Run("task", "wait", string(ended))
	if r := p.Try("verify"); r.Code > 1 {
		t.Errorf("%+v", r)
	}
}
