package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"millrace/events"
	"millrace/task"
)

// Forget moves the horizon of the log: it writes anew what lives in front of it, and removes the
// front. Several may do so at once, and each may die at any moment: each step is a fact on the chain
// of the horizon, by compare-and-set, and can be done again.
type Forget struct {
	Rec *events.Recorder
	Log interface {
		events.Trimmer
		events.Follower
	}
	Keeping Keeping
	// Ended returns when the n-th latest of the ended tasks ended; zero if there are fewer. Default:
	// their number moves nothing.
	Ended func(ctx context.Context, n int) (time.Time, error)
	// Model knows for which ended tasks open ones wait, and for much less than the log what came last of
	// a task. Default: none wait, and the log is asked.
	Model interface {
		Model
		// Since returns those of the tasks that have changed at a sequence or later, and those that are not known.
		Since(ctx context.Context, ids []task.ID, seq uint64) (later map[task.ID]bool, unknown []task.ID, err error)
	}
	// Stirs hears what Model has folded. Default: the log is read once more.
	Stirs *Stirs
	// Counts returns the beginning of what budgets and breakers count at present; zero for nothing.
	// Default: nothing.
	Counts func(ctx context.Context) (time.Time, error)
	// Sealer keeps what goes. Default: nothing does.
	Sealer Sealer
	// Settle is how long after the last step the front is removed: by then all workers know where the
	// horizon is. Default 2s.
	Settle time.Duration
	// Wait waits. Default: by the clock of the process.
	Wait func(ctx context.Context, d time.Duration) error
	// Rests is for how many times as long as it has worked the round rests, again and again, so that others have
	// the processor; it does not while what may go grows faster than it goes. Default 0.
	Rests float64

	samples sampled
	unripe  uint64 // a front in which most tasks had not ended is read again if it reaches up to here
	left    uint64 // what might go next, when this last chose
	hurries bool   // it grew faster than it went
}

// Sealer keeps in an archive what the log forgets.
type Sealer interface {
	// Seal stores the messages from first up to the horizon, without that, as one segment, reads it
	// back, and returns what the log records of it. It can be done again, also by two at once. After an
	// error nothing may be removed.
	Seal(ctx context.Context, first uint64, chosen task.HorizonChosen) (task.HorizonSealed, error)
}

// Forgotten is the result of a round.
type Forgotten struct {
	Horizon task.Horizon
	// Held is what holds the horizon back; zero if nothing does.
	Held Held
	// Chains is how many chains this round has carried, and Tasks how many tasks it has forgotten.
	Chains, Tasks int
	// Done says that the front was removed.
	Done bool
}

// carried counts a chain that was carried.
func (f *Forgotten) carried(did bool) {
	if did {
		f.Chains++
	}
}

// ErrHeld ends a round because something that came up meanwhile holds the horizon back.
var ErrHeld = errors.New("the horizon is held back")

// errOther: another server has made the step.
var errOther = errors.New("another server moves the horizon")

// Round moves the horizon once, if it can move, or goes on with a move that another process has left.
func (f *Forget) Round(ctx context.Context) (Forgotten, error) {
	var out Forgotten
	err := f.round(ctx, &out)
	if errors.Is(err, errOther) {
		err = nil
	}
	return out, err
}

func (f *Forget) round(ctx context.Context, out *Forgotten) (err error) {
	if out.Horizon, err = f.Rec.Horizon(ctx); err != nil {
		return err
	}
	h := &out.Horizon
	var pass *passage
	if h.Step == task.HorizonRests {
		var e task.HorizonChosen
		if e, pass, err = f.choose(ctx, out); err != nil || e.Below == 0 {
			return err
		}
		if err := f.step(ctx, h, e); err != nil {
			return err
		}
	}
	span := h.Span
	if h.Step == task.HorizonOpen && f.Sealer != nil && !h.Sealed {
		sealed, err := f.Sealer.Seal(ctx, h.From, task.HorizonChosen{Span: span})
		if err != nil {
			out.Held = Held{Seq: h.Below, By: HeldByArchive, What: "the archive: " + err.Error(), Since: h.Since}
			return fmt.Errorf("seal the log up to %d: %w", h.Below, err)
		}
		sealed.Span, sealed.Chosen = span, h.Chosen
		if err := f.step(ctx, h, sealed); err != nil {
			return err
		}
	}
	if pass == nil {
		if pass, err = f.survey(ctx, h.Below, f.Rec.Now()); err != nil {
			return err
		}
	}
	if err := pass.carry(ctx, out); err != nil {
		return err
	}
	if h.Step == task.HorizonOpen {
		for _, job := range slices.Sorted(maps.Keys(pass.tallies)) {
			if err := f.Rec.Tally(ctx, job, *pass.tallies[job]); err != nil {
				return err
			}
		}
		if err := f.step(ctx, h, task.HorizonCarried{Span: span, Chosen: h.Chosen, Chains: out.Chains}); err != nil {
			return err
		}
	}
	return f.remove(ctx, h, pass, out)
}

// remove removes the front when nothing in it lives any more.
func (f *Forget) remove(ctx context.Context, h *task.Horizon, pass *passage, out *Forgotten) error {
	// Most of what happens meanwhile is read while the others learn where the horizon is; what stirs is met below.
	if _, err := pass.stirred(ctx); err != nil {
		return err
	}
	if left := cmp.Or(f.Settle, tooYoung) - f.Rec.Now().Sub(h.Since); left > 0 {
		wait := f.Wait
		if wait == nil {
			wait = rest
		}
		if err := wait(ctx, left); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		again, err := pass.stirred(ctx)
		switch {
		case err != nil:
			return err
		case again && try == mostStirs:
			return fmt.Errorf("%w: something always happens to what was to go, or the read model is far behind", ErrHeld)
		}
		if !again {
			break
		}
		if pass, err = f.survey(ctx, h.Below, f.Rec.Now()); err != nil {
			return err
		}
		if err := pass.carry(ctx, out); err != nil {
			return err
		}
	}
	floor, err := f.Log.Floor(ctx)
	if err != nil {
		return err
	}
	if floor.Seq > 0 && floor.Seq < h.Below {
		out.Held = Held{Seq: floor.Seq, By: HeldByOffer, What: "an offer that is out or waits", Task: floor.Holder, Since: floor.Since}
		return fmt.Errorf("%w at %d by an offer of task %s", ErrHeld, floor.Seq, floor.Holder)
	}
	if err := f.Log.Trim(ctx, h.Below); err != nil {
		return err
	}
	out.Tasks, out.Done = len(pass.dead), true
	return f.step(ctx, h, task.HorizonPurged{Span: h.Span, Chosen: h.Chosen})
}

// mostStirs is how often the front is looked at again before its removal, because something has
// happened in it.
const mostStirs = 20

// rest waits by the clock of the process.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// step records a step of the horizon.
func (f *Forget) step(ctx context.Context, h *task.Horizon, e task.HorizonEvent) error {
	done, err := f.Rec.StepHorizon(ctx, h, e)
	if err == nil && !done {
		err = errOther
	}
	return err
}

// choose finds where the horizon can move, and reads what lies before; nowhere if Below is 0.
func (f *Forget) choose(ctx context.Context, out *Forgotten) (e task.HorizonChosen, pass *passage, err error) {
	now := f.Rec.Now()
	var front Front
	if front.First, err = f.Log.First(ctx); err != nil {
		return e, nil, err
	}
	at := func(p *Point, t time.Time) {
		if err == nil && !t.IsZero() {
			p.Seq, p.Stored, err = f.Log.StoredAt(ctx, t)
		}
	}
	at(&front.Young, now.Add(-tooYoung))
	if front.Young.Seq == 0 && err == nil {
		var last uint64
		last, err = f.Log.Last(ctx)
		front.Young.Seq = last
	}
	if k := f.Keeping; k.Age > 0 {
		if at(&front.Aged, now.Add(-k.Age)); front.Aged.Seq == 0 {
			front.Aged = front.Young
		}
	}
	keeping := f.Keeping
	if err == nil {
		keeping.many, err = f.many(ctx)
		at(&front.Many, keeping.many)
	}
	if f.Counts != nil && err == nil {
		var since time.Time
		since, err = f.Counts(ctx)
		at(&front.Counts, since)
	}
	if err == nil {
		front.Floor, err = f.Log.Floor(ctx)
	}
	c := keeping.Choose(front)
	if f.hurries = keeping.hurries(f.hurries, f.left, c.Left); f.hurries {
		keeping.Most = cmp.Or(keeping.Most, mostHurried)
		c = keeping.Choose(front)
	}
	f.left = c.Left
	if c.Below == 0 && c.Held.Seq == 0 && err == nil {
		front.Short, err = f.short(ctx, &keeping, &front, now)
		c = keeping.Choose(front)
	}
	for out.Held = c.Held; err == nil && c.Below > 0; c.Below, c.Left, out.Held = pass.held.Seq, 0, pass.held {
		span := c.Below - min(c.Below, front.First)
		if span < keeping.least() || c.Waits && c.Below < f.unripe {
			return e, nil, nil
		}
		if c.Waits && c.Left == 0 {
			if few, err := f.Ended(ctx, keeping.Tasks+int(span)/fewEnded); err != nil || few.IsZero() {
				return e, nil, err
			}
		}
		if pass, err = f.pass(ctx, c.Below, now); err != nil {
			break
		}
		// Of many tasks that were submitted at once, the births lie in one front, and the ends in the next ones.
		if pass.unripe() && c.Left > 0 && keeping.Most == 0 {
			keeping.Most = mostHurried
			c = keeping.Choose(front)
			out.Held = c.Held
			if pass, err = f.pass(ctx, c.Below, now); err != nil {
				break
			}
		}
		if pass.unripe() && c.Left == 0 && c.Waits {
			f.unripe = c.Below + (c.Below-min(c.Below, front.First))/grown + keeping.least()
			return e, nil, nil
		}
		f.unripe = 0
		pass.narrow(front.First, keeping.least())
		if err = pass.judge(ctx); err != nil || pass.held.Seq == 0 {
			break
		}
	}
	if err != nil || c.Below == 0 || c.Why == whyShort && len(pass.dead) < 3*len(pass.stay) {
		return e, nil, err
	}
	e.Below, e.Why, e.From = pass.below, c.Why, max(out.Horizon.Below, 1)
	e.Before, err = f.stored(ctx, e.Below)
	return e, pass, err
}

// stored is when the log stored the first message from a sequence on.
func (f *Forget) stored(ctx context.Context, seq uint64) (time.Time, error) {
	feed, err := f.Log.Follow(ctx, seq)
	if err != nil {
		return time.Time{}, err
	}
	defer feed.Close()
	records, err := feed.Next(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return records[0].Stored, nil
}

// Collector moves the horizon again and again.
type Collector struct {
	Forget
	// Every is the interval of its looks. Default one minute. After a move that removed something it
	// looks again at once.
	Every time.Duration
	// First tells whether this server goes first: the others look a few times less often. Default: it
	// does.
	First  func() bool
	Logger *slog.Logger

	looked atomic.Pointer[Looked]
}

// rests is [Forget.Rests] of a [Collector]: it takes a third of one processor.
const rests = 2

// Looked is what the last look of a [Collector] found.
type Looked struct {
	// Held is what holds the horizon back; zero if nothing does.
	Held
	// At is when that was.
	At time.Time
}

// Last returns what the last look found; zero before the first one.
func (c *Collector) Last() Looked {
	if l := c.looked.Load(); l != nil {
		return *l
	}
	return Looked{}
}

// note keeps the result of a round.
func (c *Collector) note(done *Forgotten, err error) {
	is, was := &Looked{done.Held, c.Rec.Now()}, c.Last()
	if err != nil && is.Seq == 0 {
		is.Held = Held{Seq: max(done.Horizon.Below, 1), By: HeldByFault, What: err.Error(), Since: is.At}
		if was.By == HeldByFault {
			is.Since = was.Since
		}
	}
	c.looked.Store(is)
}

// others is how much less often a server looks that does not go first.
const others = 5

// Run moves the horizon until ctx ends, whose error it returns. Each server looks at once when it starts,
// so it can say what holds the horizon back.
func (c *Collector) Run(ctx context.Context) error {
	log := cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	every := cmp.Or(c.Every, time.Minute)
	c.Rests = rests
	for n := 0; ; n++ {
		pause := every
		if c.First == nil || c.First() || n%others == 0 {
			done, err := c.Round(ctx)
			if !errors.Is(err, errUnread) {
				c.note(&done, err)
			}
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, errUnread): // it has just started
				n, pause = -1, min(every, time.Second)
			case err != nil:
				log.Warn("the horizon of the log does not move; trying again", "error", err)
			case done.Done:
				log.Info("the log has forgotten its front", "below", done.Horizon.Below, "tasks", done.Tasks, "carried", done.Chains)
				pause = 0
			}
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// later returns those of the tasks about which something lies behind the horizon: what rows say may
// be as old as the sequence that waits returned before. Of a task without a row only the log knows.
func (f *Forget) later(ctx context.Context, ids []task.ID, below uint64) (map[task.ID]bool, error) {
	if f.Model == nil {
		return f.Log.Later(ctx, ids, below)
	}
	later, unknown, err := f.Model.Since(ctx, ids, below)
	if err != nil || len(unknown) == 0 {
		return later, err
	}
	more, err := f.Log.Later(ctx, unknown, below)
	maps.Copy(later, more)
	return later, err
}

// waits returns the tasks that ended and for which open ones wait, and the sequence that this reflects.
func waits(ctx context.Context, m Model) (map[task.ID]bool, uint64, error) {
	_, seq, err := m.Nodes(ctx) // before the rest, which may be later
	needed := map[task.ID]bool{}
	for after := task.ID(""); err == nil; {
		var ids []task.ID
		if ids, err = m.Held(ctx, after, eachTime); err != nil || len(ids) == 0 {
			break
		}
		after = ids[len(ids)-1]
		var tasks []task.Task
		tasks, err = m.Known(ctx, ids)
		for i := range tasks {
			if tasks[i].Needs == nil {
				continue
			}
			for _, need := range tasks[i].Needs.Of {
				needed[need.Task] = true
			}
		}
	}
	return needed, seq, err
}
