package answers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/history/replay"
	"millrace/history/whatif"
	"millrace/projections/view"
)

// Requests that go through the log as a debugger does: replay steps through it, and whatif decides
// again.

// Bounds of what a request steps through: the messages of the log up to the end of the span, and
// their bytes. The latest span stays in memory for stepsKept, for the next page of it.
const (
	stepsMost  = 200_000
	stepsBytes = 96 << 20
	stepsKept  = time.Minute
)

// replayRequest chooses a span of the log, and what is looked at in it.
type replayRequest struct {
	// From is the moment of the first step, a sequence of the log or a time; the log before it is
	// read as well. Default: the beginning.
	From string `json:"from,omitempty"`
	// Until is the moment of the last step. Default: the end of the log.
	Until string `json:"until,omitempty"`
	// Task, Node, Queue and Schedule choose the steps about one of them; at most one is set. Of the
	// id of a task, a part is enough that no other has. Default: all steps.
	Task     string `json:"task,omitempty"`
	Node     string `json:"node,omitempty"`
	Queue    string `json:"queue,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	// Limit is how many steps are returned: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the previous page; it has the span of that page.
	Cursor string `json:"cursor,omitempty"`

	focus replay.Focus
	spot  *spot
}

func (r *replayRequest) check() error {
	for i, id := range []string{r.Task, r.Node, r.Queue, r.Schedule} { // in the order of FocusKinds
		switch {
		case id == "":
		case r.focus.Kind != "":
			return fmt.Errorf("%s and %s are both given; choose one", r.focus.Kind, replay.FocusKinds[i])
		default:
			r.focus = replay.Focus{Kind: replay.FocusKinds[i], ID: id}
		}
	}
	if r.Cursor != "" {
		r.spot = new(spot)
		if err := r.spot.parse(r.Cursor); err != nil {
			return err
		}
	}
	return validLimit(&r.Limit)
}

// spot is a place in a span: where it begins and ends, and the last step that was seen.
type spot struct{ from, to, last uint64 }

func (p *spot) cursor() string { return fmt.Sprintf("%d-%d-%d", p.from, p.to, p.last) }

func (p *spot) parse(cursor string) error {
	_, err := fmt.Sscanf(cursor, "%d-%d-%d", &p.from, &p.to, &p.last)
	if err != nil || p.cursor() != cursor || p.from > p.last || p.last > p.to {
		return errors.New("cursor: want the next of a page before")
	}
	return nil
}

// stepPage is a page of steps.
type stepPage struct {
	// From and To are the first and the last sequence of the span.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Steps are in the order of the log.
	Steps []replay.Frame `json:"steps"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

// after returns the cursor behind the last step of the page.
func (p *stepPage) after() string {
	return (&spot{p.From, p.To, p.Steps[len(p.Steps)-1].Seq}).cursor()
}

// halfSteps cuts a page of steps.
func halfSteps(answer any) (any, bool) {
	p, ok := answer.(stepPage)
	n := len(p.Steps) / 2
	if !ok || n == 0 {
		return nil, false
	}
	p.Steps = p.Steps[:n]
	p.Next = p.after()
	return p, true
}

// kept is the span that was stepped through last.
type kept struct {
	mu       sync.Mutex
	span     *replay.Span // guarded by mu; nil for none
	from, to uint64       // guarded by mu
}

// of returns the kept span, if it is this one.
func (k *kept) of(from, to uint64) *replay.Span {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.from != from || k.to != to {
		return nil
	}
	return k.span
}

// put keeps a span for a while.
func (k *kept) put(span *replay.Span, to uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.span == span {
		return
	}
	k.span, k.from, k.to = span, span.From(), to
	time.AfterFunc(stepsKept, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.span == span {
			k.span = nil
		}
	})
}

// replay returns a page of steps.
func (s *Service) replay(ctx context.Context, r replayRequest) (is stepPage, err error) {
	from, end, err := s.spanOf(ctx, r.From, r.Until)
	if err != nil {
		return is, err
	}
	if r.spot != nil {
		from, end = view.Moment{Seq: r.spot.from}, r.spot.to
	}
	leave, err := s.reads()
	if err != nil {
		return is, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, patience-time.Second)
	defer cancel()
	span := s.stepped.of(from.Seq, end)
	if span == nil {
		if span, err = s.stepsIn(ctx, from, end); err != nil {
			return is, err
		}
	}
	is = stepPage{From: span.From(), To: span.To(), Steps: []replay.Frame{}}
	if span.Len() == 0 {
		return is, nil
	}
	rules := s.rules(s.now())
	rules.Task.AckWait = s.Client.Store().AckWait()
	x, err := replay.New(span, replay.Config{Rules: rules, Margin: s.Margin, Focus: r.focus, Limited: s.Limited, Holders: s.Holders})
	if err != nil {
		return is, badRequest{err}
	}
	if r.spot != nil {
		if _, err := x.Do(ctx, fmt.Sprintf("g %d", r.spot.last)); err != nil {
			return is, badRequest{fmt.Errorf("cursor: %w", err)}
		}
	}
	for len(is.Steps) < r.Limit {
		a, err := x.Do(ctx, "n")
		switch {
		case err != nil && ctx.Err() != nil && len(is.Steps) > 0:
			is.Next = is.after()
			return is, nil
		case err != nil:
			return is, err
		case a.None:
			return is, nil
		}
		is.Steps = append(is.Steps, *a.Frame)
	}
	if last := is.Steps[len(is.Steps)-1]; last.Nth < last.Of {
		is.Next = is.after()
		s.stepped.put(span, is.To)
	}
	return is, nil
}

// stepsIn reads a span of the log, and all before it.
func (s *Service) stepsIn(ctx context.Context, from view.Moment, end uint64) (*replay.Span, error) {
	span, bytes := replay.NewSpan(1), 0
	lacks, err := s.Client.Import(ctx)
	if err != nil {
		return nil, err
	}
	span.Imported(lacks)
	large := tooLarge{fmt.Errorf("up to #%d the log has more than the %d messages, or %d MiB, that are read here: `millrace replay` reads more", end, stepsMost, stepsBytes>>20)}
	whole, err := s.readLog(ctx, 1, end, bounds{verifyFor, stepsMost}, func(uint64) {}, func(r *events.Record) error {
		if bytes += len(r.Raw); bytes > stepsBytes {
			return large
		}
		return span.Add(r, from.Begun(r))
	})
	if err == nil && !whole {
		err = large
	}
	return span, err
}

// whatifMost is how many messages a request of whatif reads at most: it keeps what it must know of
// them in memory.
const whatifMost = 500_000

// whatifRequest asks what would have been under other settings.
type whatifRequest struct {
	// Set are other settings, NAME=VALUE each: node_ttl=10s, retry.max=5, schedule.catchup=all.
	// Default: none, to see that all decisions come out as they were.
	Set []string `json:"set,omitempty"`
	// Job and Schedule limit what Set changes to one job and one schedule. Default: all.
	Job      string `json:"job,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	// From is the moment from which on decisions are reported, a sequence of the log or a time; the
	// log before it is read as well. Default: the beginning.
	From string `json:"from,omitempty"`
	// Until is the moment at which the log ends. Default: its end.
	Until string `json:"until,omitempty"`
	// Simulate asks what would have become of the tasks, by a model of how long attempts run.
	Simulate bool `json:"simulate,omitempty"`
	// Limit is how many changes, tasks and mistakes the answer names at most, each: 1 to 1000,
	// default 50.
	Limit int `json:"limit,omitempty"`

	other whatif.Question
}

func (r *whatifRequest) check() (err error) {
	r.other.Only = whatif.Only{Job: r.Job, Schedule: r.Schedule}
	if r.other.Only != (whatif.Only{}) && len(r.Set) == 0 {
		return errors.New("job and schedule limit what set changes: give set, too")
	}
	if r.other.Other, err = whatif.Parse(r.Set, r.other.Only); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	r.other.Simulate = r.Simulate
	return validLimit(&r.Limit)
}

// whatifAnswer is what would have been.
type whatifAnswer struct {
	whatif.Report
	// Left is how many changes, tasks and mistakes Limit has left out.
	Left int `json:"left,omitempty"`
	// Interrupted tells that the bounds of a request did not suffice: Last is how far it has come.
	Interrupted bool `json:"interrupted,omitempty"`
}

func (s *Service) whatif(ctx context.Context, r whatifRequest) (is whatifAnswer, err error) {
	span, end, err := s.spanOf(ctx, r.From, r.Until)
	if err != nil {
		return is, err
	}
	leave, err := s.reads()
	if err != nil {
		return is, err
	}
	defer leave()
	q := r.other
	q.Since, q.Settings, q.Margin = span, s.Rules, s.Margin
	q.Settings.AckWait = s.Client.Store().AckWait()
	if q.Import, err = s.Client.Import(ctx); err != nil {
		return is, err
	}
	reader := whatif.NewReader(q)
	whole, err := s.readLog(ctx, 1, end, bounds{verifyFor, whatifMost}, func(uint64) {}, reader.Add)
	if err != nil {
		return is, err
	}
	report, err := reader.Report()
	switch {
	case errors.Is(err, whatif.ErrIdle) && !whole:
		return is, tooLarge{fmt.Errorf("in %v a request comes to #%d of the log, and not to what it asks about: `millrace whatif` reads more", verifyFor, reader.Last())}
	case err != nil:
		return is, badRequest{err}
	}
	is.Report, is.Interrupted = *report, !whole
	is.Changes = first(is.Changes, r.Limit, &is.Left)
	is.Unknown = first(is.Unknown, r.Limit, &is.Left)
	is.Mistakes = first(is.Mistakes, r.Limit, &is.Left)
	if is.Simulated != nil {
		is.Simulated.Tasks = first(is.Simulated.Tasks, r.Limit, &is.Left)
	}
	return is, nil
}

// first returns at most most rows, and counts the others.
func first[T any](all []T, most int, left *int) []T {
	if len(all) <= most {
		return all
	}
	*left += len(all) - most
	return all[:most]
}

// spanOf returns the moment at which a span of the log begins, and the sequence at which it ends.
func (s *Service) spanOf(ctx context.Context, from, until string) (begin view.Moment, end uint64, err error) {
	if begin, err = momentIn("from", from, s.now()); err != nil {
		return begin, 0, err
	}
	if until == "" {
		end, err = s.Client.Last(ctx)
		return begin, end, err
	}
	p, err := s.pointOf(ctx, "until", until)
	return begin, p.Seq, err
}
