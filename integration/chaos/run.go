package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/integration/load"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// Run starts an installation, breaks it as planned while it works, waits until it has come to rest
// and judges its log. It ends everything that it has started, also if ctx ends, and then returns
// ctx's error. Any other error means that the installation could not be started or that cfg is
// wrong; a broken promise is a verdict, not an error.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	dir, err := os.MkdirTemp("", "millrace-chaos-")
	if err != nil {
		return Report{}, err
	}
	r := &run{cfg: cfg, dir: dir}
	if !cfg.Keep {
		defer func() { err = errors.Join(err, removeAll(dir)) }()
	}
	if r.witnesses, err = newWitnesses(dir); err != nil {
		return Report{}, err
	}
	if r.crew, err = newCrew(&r.cfg, dir); err != nil {
		return Report{}, err
	}
	defer func() {
		if ctx.Err() != nil {
			r.crew.close(hurry)
			return
		}
		r.crew.close(stopPatience)
	}()
	defer r.close()
	if err := r.open(ctx); err != nil {
		return Report{}, err
	}
	report, err = r.play(ctx)
	if cfg.Keep {
		report.Dir = dir
	}
	return report, err
}

// hurry is how long processes may take to end when the run is interrupted.
const hurry = 500 * time.Millisecond

// run is one run.
type run struct {
	cfg    Config
	dir    string
	crew   *crew
	store  *jet.Store
	client *client.Client

	observer  *observer
	submitter *submitter
	ticker    *ticker
	ticked    time.Time // until when schedules had ticks
	witnesses *witnesses
	closers   []func()

	began time.Time // of the load; zero before
	tell  sync.Mutex
}

func (r *run) close() {
	for _, c := range slices.Backward(r.closers) {
		c()
	}
}

// beside runs something in the background until the run is closed.
func (r *run) beside(ctx context.Context, do func(context.Context)) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { do(ctx) })
	r.closers = append(r.closers, func() {
		stop()
		running.Wait()
	})
}

// open starts everything and returns when it is ready.
func (r *run) open(ctx context.Context) error {
	r.say("starting the server")
	if err := r.crew.startServer(ctx); err != nil {
		return err
	}
	nc, err := r.cfg.Dial(r.crew.url(), "millrace chaos")
	if err != nil {
		return err
	}
	r.closers = append(r.closers, nc.Close)
	if r.cfg.mixes() { // the streams are to be as the first server's program makes them
		if err := r.firstServer(ctx, nc); err != nil {
			return err
		}
	}
	if r.store, err = r.attach(ctx, nc); err != nil {
		return err
	}
	r.closers = append(r.closers, r.store.Close)
	r.client = client.New(r.store, "chaos")
	callers, err := r.callers(ctx)
	if err != nil {
		return err
	}
	r.submitter = &submitter{client: callers, delays: map[task.ID]delayed{}, limited: map[task.ID]limited{}, comes: map[task.ID]time.Duration{}}
	r.ticker = &ticker{client: callers}
	r.observer = newObserver(r.store)
	r.beside(ctx, r.observer.run)

	r.say("starting %d schedulers and %d workers", r.cfg.Schedulers, r.cfg.Workers)
	for _, p := range r.crew.others {
		if err := p.start(); err != nil {
			return err
		}
	}
	for name, p := range r.crew.others {
		ready := r.serves(ctx)
		switch {
		case name == Pusher:
			ready = func() bool { return true }
		case name.isWorker():
			ready = func() bool { return r.observer.online() == r.cfg.Workers }
		}
		if err := p.await(ctx, startPatience, ready); err != nil {
			return err
		}
	}
	return nil
}

// firstServer starts a scheduler and waits until it has made the streams.
func (r *run) firstServer(ctx context.Context, nc *nats.Conn) error {
	p := r.crew.process(Scheduler(1))
	if err := p.start(); err != nil {
		return err
	}
	return p.await(ctx, startPatience, func() bool {
		store, err := jet.Attach(ctx, nc)
		if err == nil {
			store.Close()
		}
		return err == nil
	})
}

// attach opens the log on a connection. Unless servers do, it makes and completes the streams.
func (r *run) attach(ctx context.Context, nc *nats.Conn, options ...jet.Option) (*jet.Store, error) {
	if r.cfg.mixes() {
		return jet.Attach(ctx, nc, options...)
	}
	return jet.Open(ctx, nc, r.cfg.Layout, options...)
}

// callers returns the submitters' client: on a connection of its own, with a clock that a step may
// shift.
func (r *run) callers(ctx context.Context) (*client.Client, error) {
	nc, err := r.cfg.Dial(r.crew.url(), "millrace chaos callers")
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, nc.Close)
	clock := request.NewClock(request.Shifted(r.crew.clockFile(Callers)))
	store, err := r.attach(ctx, nc, jet.WithClock(clock))
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, store.Close)
	return client.New(store, "chaos"), nil
}

// serves tells whether a scheduler answers.
func (r *run) serves(ctx context.Context) func() bool {
	return func() bool {
		ctx, cancel := context.WithTimeout(ctx, tryTime)
		defer cancel()
		_, err := r.client.Nodes(ctx, client.NodeListRequest{})
		return err == nil
	}
}

// errPatience: there was time enough for an answer.
var errPatience = errors.New("no answer in time")

// play performs the run.
func (r *run) play(ctx context.Context) (Report, error) {
	orders := workload(r.cfg.Seed, r.cfg.Duration, r.cfg.Rate, r.cfg.Tasks, r.cfg.Layout.AckWait)
	if r.crew.shelf != nil {
		r.crew.shelf.fill(orders, r.cfg.Seed, r.cfg.Duration)
		r.submitter.shelf = r.crew.shelf
		r.beside(ctx, r.sweep)
	}
	for i := range orders {
		r.witnesses.attend(orders[i].submission.Spec.Run)
	}
	r.tell.Lock()
	r.began = time.Now()
	r.tell.Unlock()
	patient, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	r.beside(ctx, r.tick)

	if r.cfg.clocks() {
		for i := range orders {
			if orders[i].submission.Labels["kind"] == "short" {
				orders[i].submission.Pending = new(value.Duration(impatient))
			}
		}
		r.beside(ctx, func(ctx context.Context) { r.ticker.run(ctx, r.cfg.Duration) })
	}
	if r.cfg.mixes() { // what one program leaves running the other one adopts
		for i := range orders {
			if s := &orders[i].submission; s.Labels["kind"] == "long" {
				s.Spec.OnRestart = job.RestartAdopt
			}
		}
	}
	faults, inject := errgroup.WithContext(ctx)
	for _, s := range r.cfg.Steps {
		faults.Go(func() error { return r.step(inject, s) })
	}
	r.submitter.run(inject, patient, r.began, orders)
	err := faults.Wait()
	if err == nil {
		r.ticked, err = r.ticker.end(ctx, r.observer.decisions)
	}
	if err == nil {
		r.settle(ctx)
	}
	lose(errPatience)
	r.submitter.running.Wait()
	if ctx.Err() != nil {
		return Report{}, ctx.Err()
	}
	took := time.Since(r.began)
	report := r.conclude(ctx, err)
	report.Seconds = took.Seconds()
	return report, nil
}

// sweepPause is the pause between two garbage collections.
const sweepPause = 3 * time.Second

// sweep removes unneeded files, while everything else goes on. It must not remove what the run
// needs. It is not killed: its remaining mark would make pushes wait for a minute.
func (r *run) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// Tasks detect what it did wrong.
			_, _ = r.client.SweepFiles(ctx, client.FilesSweep{Versions: 1}, r.client.List)
		}
	}
}

// step performs one step at its time.
func (r *run) step(ctx context.Context, s Step) error {
	timer := time.NewTimer(time.Until(r.began.Add(s.At.Std())))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
	}
	r.say("%s %s for %v", s.Fault, s.Target, s.For)
	err := r.crew.inject(ctx, s)
	if err == nil {
		r.say("%s %s is over", s.Fault, s.Target)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// settle waits until everything has ended that must end, as long as some task does: with too few
// workers for the load, tasks are slow but not stuck.
func (r *run) settle(ctx context.Context) {
	r.say("the last fault is over; waiting for the rest")
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	late := time.NewTimer(r.cfg.Settling)
	defer late.Stop()
	for before := 0; ; {
		if ended, _ := r.observer.counts(); ended > before {
			before = ended
			late.Reset(r.cfg.Settling)
		}
		if r.submitter.waiting() == 0 && r.observer.done(r.submitter.all()) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			return
		case <-ticker.C:
		}
	}
}

// conclude reads the log and makes the report. broke is why the run ended early, if it did.
func (r *run) conclude(ctx context.Context, broke error) Report {
	r.say("reading the log")
	faults := r.crew.faults()
	report := Report{Scenario: r.cfg.Scenario, Seed: r.cfg.Seed, Verdict: Unknown, Faults: map[Fault]int{}, States: map[string]int{}, Broken: []string{}, Odd: []string{}}
	for _, f := range faults {
		report.Faults[f.Fault]++
	}
	acknowledged := r.submitter.all()
	report.Acknowledged = len(acknowledged)
	report.Odd = append(append(report.Odd, r.crew.oddities()...), r.submitter.refused...)
	if broke != nil {
		report.Odd = append(report.Odd, broke.Error())
		return report
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	before := r.observer.facts() // what comes while the log is read need not be in it
	records, err := readLog(ctx, r.store)
	if err != nil {
		report.Odd = append(report.Odd, fmt.Sprintf("the log cannot be read: %v", err))
		return report
	}
	rows, err := r.rows(ctx, lastFact(records))
	if err != nil {
		report.Odd = append(report.Odd, fmt.Sprintf("the read model does not answer: %v", err))
		return report
	}
	j := judge(records, rows, acknowledged, r.cfg.Rules)
	report.Decisions, report.Unjudged = j.Decisions, j.Unjudged
	report.Tasks, report.Lost, report.DuplicatedResults, report.Stuck = j.Tasks, len(j.Lost), len(j.Duplicated), len(j.Stuck)
	for s, n := range j.States {
		report.States[s.String()] = n
	}
	report.Broken = append(report.Broken, j.Broken...)
	report.Broken = append(report.Broken, vanished(before, records)...)
	report.Broken = append(report.Broken, r.views(ctx, lastFact(records), j.States)...)

	if s := r.crew.shelf; s != nil {
		found, broken, odd := s.judge(records)
		found.Spoiled = r.crew.spoils.done()
		report.Files, report.Broken, report.Odd = &found, append(report.Broken, broken...), append(report.Odd, odd...)
	}

	if r.cfg.fills() {
		report.Disk = r.crew.disk.played()
		if r.crew.disk.failures() > 0 {
			report.Odd = append(report.Odd, fmt.Sprintf("the disk of the server could not be filled %d times", r.crew.disk.failures()))
		}
	}
	if r.cfg.clocks() {
		times, broken := judgeTimes(records, r.submitter.delayed())
		missed, odd := r.ticker.judge(records, r.ticked, &times)
		report.Times, report.Broken, report.Odd = &times, append(append(report.Broken, broken...), missed...), append(report.Odd, odd...)
	}
	seen, err := r.witnesses.judge(faults, r.submitter.underLimits())
	if report.Runs, report.Overlaps, report.Limits = seen.runs, len(seen.overlapping), seen.limits; err != nil {
		report.Odd = append(report.Odd, fmt.Sprintf("what ran cannot be asked whether it ran alone: %v", err))
	}
	report.Limits.count(records)
	report.Broken = append(append(report.Broken, seen.overlapping...), seen.exceeded...)

	report.Load = &load.Result{Profile: fmt.Sprintf("chaos %s, seed %d", r.cfg.Scenario, r.cfg.Seed), Rate: r.cfg.Rate, Seconds: r.cfg.Duration.Seconds(), Spacing: load.Even,
		Version: wording.ThisBuild().Version, Rounds: []load.Round{roundOf(records, r.submitter.all(), r.submitter.planned(), r.began, r.cfg.Duration)}}
	report.Breaks = brokenAt(faults, r.began, records[len(records)-1].Stored)
	f := Measure(records, faults, r.cfg.NodeTTL)
	report.Detection, report.Takeover, report.Reconnect, report.Start = f.Detection, f.Takeover, f.Reconnect, f.Start
	report.Takeovers, report.LostAttempts, report.LateResults, report.SweepRepairs = f.Takeovers, f.LostAttempts, f.Late, f.Repairs
	report.Odd = append(append(report.Odd, j.Odd...), f.Odd...)
	report.Verdict = OK
	if len(report.Broken) > 0 {
		report.Verdict = Broken
		if report.Incident, err = r.cfg.keepIncident(records, report.Broken); err != nil {
			report.Odd = append(report.Odd, fmt.Sprintf("the incident file cannot be written: %v", err))
		}
	}
	return report
}

// lastFact returns the sequence of the last record that a read model reflects.
func lastFact(records []events.Record) uint64 {
	last := uint64(0)
	for i := range records {
		if records[i].IsFact() {
			last = records[i].Seq
		}
	}
	return last
}

// rows reads the read model; once at rest, any server's will do.
func (r *run) rows(ctx context.Context, last uint64) ([]task.Task, error) {
	rows := []task.Task{}
	ask := client.ListRequest{Filter: view.Filter{Limit: 200, OldestFirst: true}, AtLeast: last}
	for {
		once, cancel := context.WithTimeout(ctx, 5*tryTime)
		page, err := r.client.List(once, ask)
		cancel()
		if err != nil {
			return nil, err
		}
		rows = append(rows, page.Tasks...)
		if ask.Cursor = page.Next; page.Next == "" {
			return rows, nil
		}
	}
}

// views compares the read models of all schedulers with the log, by counts. Which of them answers
// is random, so it asks several times.
func (r *run) views(ctx context.Context, last uint64, want map[task.State]int) []string {
	for range 4 * r.cfg.Schedulers {
		once, cancel := context.WithTimeout(ctx, 5*tryTime)
		page, err := r.client.List(once, client.ListRequest{Filter: view.Filter{Limit: 1}, AtLeast: last, Counts: true})
		cancel()
		if err != nil {
			return []string{fmt.Sprintf("a read model does not answer: %v", err)}
		}
		for _, s := range task.States() {
			if got := page.Counts[s.String()]; got != want[s] {
				return []string{fmt.Sprintf("I-8: a read model counts %d tasks as %s, the log has %d", got, s, want[s])}
			}
		}
	}
	return nil
}

// tick reports the progress of the run, now and then.
func (r *run) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.say("")
		}
	}
}

func (r *run) say(format string, args ...any) {
	r.tell.Lock()
	defer r.tell.Unlock()
	p := Progress{What: fmt.Sprintf(format, args...), At: -1}
	if !r.began.IsZero() {
		p.At = time.Since(r.began)
		p.Submitted = len(r.submitter.all())
		p.Ended, p.Running = r.observer.counts()
	}
	r.cfg.Progress(p)
}
