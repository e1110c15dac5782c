package promises

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace"
	"millrace/events"
	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// durableEnv makes this binary a worker with durable functions. Its arguments are the name of the node,
// which is also its queue, and the edition of its code.
const durableEnv = "INTEGRATION_DURABLE"

func durableMain(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	app, err := millrace.Open(ctx)
	if err == nil {
		w := &millrace.Worker{App: app, Node: args[0], Slots: 2}
		q := millrace.Queue(args[0])
		ship := "ship"
		if args[1] == "new" {
			ship = "send"
		}
		err = w.Run(ctx,
			millrace.Func("order", func(ctx context.Context, o order) (string, error) { return o.run(ctx, args[0], ship) }, q),
			millrace.Func("thumb", o.thumb, q),
			millrace.Action("nap", func(ctx context.Context, n nap) error { return millrace.Sleep(ctx, "night", n.For) }, q),
			millrace.Func("figures", func(context.Context, struct{}) (int, error) { return runtime.NumGoroutine(), nil }, q))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// order is what the durable function of these tests is given: where it notes its effects, and at which
// points its process is killed once.
type order struct {
	Dir, Key string
	Die      []string
}

type nap struct{ For time.Duration }

var o order // for its methods

// note adds a line to the ledger, which is outside of the log.
func (o *order) note(line string) error {
	f, err := os.OpenFile(filepath.Join(o.Dir, "ledger"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(o.Key + " " + line + "\n")
	return err
}

// at kills the process the first time that the order comes to this point, if it is to.
func (o *order) at(point string) {
	if !slices.Contains(o.Die, point) {
		return
	}
	f, err := os.OpenFile(filepath.Join(o.Dir, "died-"+o.Key+"-"+point), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return // it has died here
	}
	_ = f.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (*order) thumb(_ context.Context, o order) (string, error) { return o.Key, o.note("made") }

// points are the places at which a worker may be killed, in the order in which the function comes to them.
// A wait has one behind its step, before the log knows that it waits, and one when it is over.
var points = []string{"begun", "id", "charging", "charged", "paid", "sleeping", "slept", "calling", "called",
	"awaiting", "told", "asking", "answered", "shipping", "shipped", "ended"}

// large makes a result too large for the log.
var large = strings.Repeat(".", task.MaxStepResult)

// run is the durable function.
func (o *order) run(ctx context.Context, queue, last string) (string, error) {
	waits := func(point string, err error) error {
		if errors.Is(err, millrace.ErrSuspended) {
			o.at(point)
		}
		return err
	}
	o.at("begun")
	id, err := millrace.NewID(ctx)
	if err != nil {
		return "", err
	}
	o.at("id")
	receipt, err := millrace.Step(ctx, "charge", func(context.Context) (string, error) {
		o.at("charging")
		err := o.note("charge " + string(id))
		o.at("charged")
		return "receipt of " + string(id) + large, err
	})
	if err != nil {
		return "", err
	}
	o.at("paid")
	if err := waits("sleeping", millrace.Sleep(ctx, "grace", 20*time.Millisecond)); err != nil {
		return "", err
	}
	o.at("slept")
	thumb := millrace.Func("thumb", o.thumb, millrace.Queue(queue))
	of := func(key string) order { return order{Dir: o.Dir, Key: o.Key + key} }
	made, err := millrace.Call(ctx, "thumb", thumb, of("-t"))
	if waits("calling", err) != nil {
		return "", err
	}
	o.at("called")
	who, err := millrace.Await[string](ctx, "approval", time.Hour)
	if waits("awaiting", err) != nil {
		return "", err
	}
	o.at("told")
	a, b := thumb.With(of("-a")), thumb.With(of("-b"))
	if err := waits("asking", millrace.All(ctx, "both", a, b)); err != nil {
		return "", err
	}
	o.at("answered")
	both := ""
	for _, c := range []*millrace.Calling[string]{a, b} {
		is, err := c.Result()
		if err != nil {
			return "", err
		}
		both += " " + is
	}
	if _, err := millrace.Step(ctx, last, func(context.Context) (struct{}, error) {
		o.at("shipping")
		err := o.note(last)
		o.at("shipped")
		return struct{}{}, err
	}); err != nil {
		return "", err
	}
	o.at("ended")
	return fmt.Sprintf("%s, %s, %s,%s", strings.TrimSuffix(receipt, string(id)+large), made, who, both), nil
}

// durable starts workers with durable functions.
type durable struct {
	*harness.Place
	millrace string
}

func newDurable(t *testing.T) *durable {
	t.Helper()
	d := &durable{Place: harness.New(t, 2*time.Second)}
	d.Let(durableEnv, "1")
	d.millrace = d.Program
	return d
}

// start starts one. It says nothing, so whoever waits looks at the log.
func (d *durable) start(name, edition string) *harness.Process {
	d.Helper()
	own, err := os.Executable()
	if err != nil {
		d.Fatal(err)
	}
	d.Program = own
	defer func() { d.Program = d.millrace }()
	return d.Start(name, edition)
}

// submission is a task of a function.
func (d *durable) submission(function, queue string, in any) birth.Submission {
	d.Helper()
	text, err := json.Marshal(in)
	params := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &params)
	}
	if err != nil {
		d.Fatal(err)
	}
	return birth.Submission{Queue: queue, Params: params, Spec: &job.Spec{Handler: function}}
}

// Wherever the worker of a durable function is killed, the function goes on behind its last step: no effect
// comes twice but that of the step during which the worker was killed, and that is known again by its id.
func TestDurableKilledEverywhere(t *testing.T) {
	t.Parallel()
	d := newDurable(t)
	d.MayRepair("workers are killed between a claim and the offer that follows")
	d.Server()
	c := d.Connect()
	// The first is killed more often than a task may lose its node without getting further.
	groups := map[string][]string{"a": points[:7], "b": points[7:12], "c": points[12:], "d": nil}
	work, ids := map[string]*harness.Process{}, map[string]task.ID{}
	want := map[task.ID]task.State{}
	for name, die := range groups {
		work[name] = d.start(name, "old")
		ids[name] = d.SubmitAs(c, d.submission("order", name, order{d.Dir, name, die}))
		want[ids[name]] = task.Finished
	}
	signalled := map[string]bool{}
	d.Until("all orders are done", func() bool {
		open := 0
		for name, id := range ids {
			select {
			case <-work[name].Ended:
				work[name] = d.start(name, "old")
			default:
			}
			is := d.State(c, id)
			if is.AwaitsSignal() && !signalled[name] {
				if _, err := c.Signal(d.Context(), id, []byte(`"ann"`), ""); err != nil {
					d.Fatal(err)
				}
				signalled[name] = true
			}
			if !is.State.Terminal() {
				open++
			}
		}
		return open == 0
	})
	ledger, err := os.ReadFile(d.Path("ledger"))
	if err != nil {
		t.Fatal(err)
	}
	all := d.ReadLog(c)
	for name, id := range ids {
		is := events.FoldTask(id, all[id])
		if said := fmt.Sprintf(`"receipt of , %[1]s-t, ann, %[1]s-a %[1]s-b"`, name); string(is.Result) != said {
			t.Errorf("order %s is %s: %s: it returned %s, want %s", name, is.State, is.Message, is.Result, said)
		}
		for _, point := range groups[name] {
			if !d.Exists("died-" + name + "-" + point) {
				t.Errorf("the worker of order %s was not killed at %s", name, point)
			}
		}
		charges := map[string]int{}
		for line := range bytes.Lines(ledger) {
			if of, ok := bytes.CutPrefix(line, []byte(name+" charge ")); ok {
				charges[string(of)]++
			}
		}
		if most := 1 + count(groups[name], "charged"); len(charges) != 1 || bytes.Count(ledger, []byte(name+" charge ")) > most {
			t.Errorf("order %s was charged %v, want one id and at most %d times", name, charges, most)
		}
		for effect, most := range map[string]int{" ship\n": 1 + count(groups[name], "shipped"), "-t made\n": 1, "-a made\n": 1, "-b made\n": 1} {
			n := bytes.Count(ledger, []byte(name+effect))
			// A child may have been running when its parent's worker was killed.
			if strings.HasSuffix(effect, "made\n") {
				most += len(groups[name])
			}
			if n < 1 || n > most {
				t.Errorf("order %s:%s%d times, want 1 to %d", name, strings.TrimSuffix(effect, "\n")+" ", n, most)
			}
		}
		children := 0
		for child := range all {
			if is := events.FoldTask(child, all[child]); is.Parent == id {
				children++
				want[child] = task.Finished
			}
		}
		if children != 3 {
			t.Errorf("order %s has %d children, want 3\n%s", name, children, harness.Story(all[id]))
		}
	}
	d.Judge(c, want)
}

func count(of []string, one string) int {
	if slices.Contains(of, one) {
		return 1
	}
	return 0
}

// Functions that sleep hold no slot and no goroutine, and each wakes.
func TestThousandsOfSleepers(t *testing.T) {
	t.Parallel()
	d := newDurable(t)
	d.Server()
	c := d.Connect()
	w := d.start("n", "old")
	figures := func() int {
		id := d.SubmitAs(c, d.submission("figures", "n", struct{}{}))
		var n int
		if is := d.Await(c, id, task.Finished); json.Unmarshal(is.Result, &n) != nil {
			t.Fatalf("it returned %s", is.Result)
		}
		return n
	}
	before := figures()
	many := 500
	if *harness.Long {
		many = 5000
	}
	var all []birth.Submission
	for i := range many {
		n := nap{time.Hour}
		if i%10 == 0 {
			n.For = 10 * time.Millisecond
		}
		all = append(all, d.submission("nap", "n", n))
	}
	var ids []task.ID
	if err := c.SubmitAll(t.Context(), all, func(r millrace.Receipt) { ids = append(ids, r.ID) }); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if i%10 == 0 {
			d.Await(c, id, task.Finished)
		} else if is := d.Await(c, id, task.Scheduled); is.Reason != "step" {
			t.Fatalf("task %s waits because of %q", id, is.Reason)
		}
	}
	if after := figures(); after > before+20 {
		t.Errorf("%d goroutines with %d sleepers, and %d before", after, many, before)
	}
	if out := d.Run("task", "why", string(ids[1])); !strings.Contains(out, `sleeps in step "night"`) {
		t.Errorf("why says\n%s", out)
	}
	w.Stop()
	if r := d.Try("verify"); r.Code > 1 {
		t.Errorf("millrace verify ends with code %d\n%s\n%s", r.Code, r.Out, r.Errs)
	}
}

// Code that comes to other steps than a task remembers is noticed, and with the right code the task goes on.
func TestDurableCodeChanges(t *testing.T) {
	t.Parallel()
	d := newDurable(t)
	d.Server()
	c := d.Connect()
	w := d.start("n", "old")
	id := d.SubmitAs(c, d.submission("order", "n", order{Dir: d.Dir, Key: "n"}))
	d.Until("it waits for its approval", func() bool { is := d.State(c, id); return is.AwaitsSignal() })
	if out := d.Run("task", "why", string(id)); !strings.Contains(out, `"approval"`) {
		t.Errorf("why says\n%s", out)
	}
	if _, err := c.Signal(t.Context(), id, []byte(`"ann"`), ""); err != nil {
		t.Fatal(err)
	}
	is := d.Await(c, id, task.Finished)
	if out := d.Run("task", "show", string(id)); !strings.Contains(out, "charge") || !strings.Contains(out, "approval") {
		t.Errorf("show says\n%s", out)
	}
	w.Stop()

	// An incident file has what it needs to run again where no server is, its large result, too.
	file := d.Path("order.mri")
	d.Run("incident", "export", "--around", string(id), "--keep-params", file)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out := d.Run("replay", file, "--with", own+" n old", "--task", string(id)); out != "1 task as recorded" {
		t.Errorf("the replay of the file says %q", out)
	}

	// Run again, it has its steps; the new code comes to another last one.
	w = d.start("n", "new")
	if _, err := c.Retry(t.Context(), id, "the code has changed"); err != nil {
		t.Fatal(err)
	}
	changed := d.Await(c, id, task.Error)
	for _, part := range []string{"step 7", `"ship"`, `"send"`} {
		if !strings.Contains(changed.Message, part) {
			t.Errorf("it says %q, want %s in it", changed.Message, part)
		}
	}
	w.Stop()
	d.start("n", "old")
	if _, err := c.Retry(t.Context(), id, "with the right code"); err != nil {
		t.Fatal(err)
	}
	if again := d.Await(c, id, task.Finished); !bytes.Equal(again.Result, is.Result) {
		t.Errorf("it returned %s, and %s before", again.Result, is.Result)
	}
	ledger, err := os.ReadFile(d.Path("ledger"))
	if err != nil || bytes.Count(ledger, []byte("n charge ")) != 1 || bytes.Count(ledger, []byte("n ship")) != 1 {
		t.Errorf("the ledger is %q, %v", ledger, err)
	}
}
