package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
)

// Keeping says how long the log keeps what has ended.
type Keeping struct {
	// Age is how long an ended task stays whose job and queue do not say so. 0 means for ever.
	Age time.Duration
	// Queues is how long one stays by its queue, if its job does not say so.
	Queues map[string]time.Duration
	// Tasks is how many ended tasks stay at most, whose job and queue do not say how long. 0 means any
	// number.
	Tasks int
	// Of is how long an ended task stays, 0 for ever. Default: as its job, its queue or Age says.
	Of func(t *task.Task) time.Duration
	// Least and Most are how many sequences the horizon passes at once: fewer are not worth the work, and
	// more would stop everybody else for too long. Defaults 1000, and 300,000 or, if more than that may go
	// and it grows faster than it goes, a million.
	Least, Most uint64

	// many is when the first of those ended that are too many by their number; zero for none.
	many time.Time
}

// Defaults of [Keeping], and of how young a message is that the horizon never passes.
const (
	leastPassed = 1000
	mostPassed  = 300_000
	mostHurried = 1_000_000 // which takes 100 MB of memory; each round waits for Settle
	tooYoung    = 2 * time.Second
	shortest    = time.Nanosecond
)

func (k *Keeping) least() uint64 { return cmp.Or(k.Least, leastPassed) }
func (k *Keeping) most() uint64  { return cmp.Or(k.Most, mostPassed) }

// of is how long a task stays; 0 for ever.
func (k *Keeping) of(t *task.Task) time.Duration {
	if k.Of != nil {
		return k.Of(t)
	}
	if d := t.Kept().Task(t.State.String()); d > 0 {
		return d
	}
	d := k.Queues[t.QueueName()]
	if d == 0 && !t.EndedAt.After(k.many) {
		return shortest
	}
	return cmp.Or(d, k.Age)
}

// over tells whether an ended task has stayed for as long as it should.
func (k *Keeping) over(t *task.Task, now time.Time) bool {
	d := k.of(t)
	return t.State.Terminal() && d > 0 && !now.Before(t.EndedAt.Add(d))
}

// Point is a message in the log, and when the log stored it. The zero value is none.
type Point struct {
	Seq    uint64
	Stored time.Time
}

// Front is what a choice of the horizon depends on.
type Front struct {
	// First is the first message in the log.
	First uint64
	// Aged is the first message that is young enough to stay, Many the first one since as many tasks
	// have ended as may stay, and Young the first one that is too young to go in any case. Zero for
	// none: the bound moves nothing, or everything is old.
	Aged, Many, Young Point
	// Short is the first message behind a front most of which has stayed for as long as jobs and queues
	// say; zero for none.
	Short Point
	// Counts is the first message that still counts for a budget or a breaker; zero for none.
	Counts Point
	// Floor is the first offer that is out or waits.
	Floor events.Floor
}

// Choice is where the horizon may move.
type Choice struct {
	// Below is the first sequence that stays; 0 if the horizon does not move. Why says in words which
	// bound moves it.
	Below uint64
	Why   string
	// Left is how many messages more might go next.
	Left uint64
	// Waits tells that only a bound of number moves the horizon, not one of time, so it need not do so at once.
	Waits bool
	// Held is what keeps it from moving further; zero if nothing does.
	Held Held
}

// Held is what holds the horizon back.
type Held struct {
	// By is one of the words below, and What says in words what holds it.
	By, What string
	// Seq is where it stops, Task the task behind it, if it is one, and Since is since when.
	Seq   uint64
	Task  task.ID
	Since time.Time
}

// What may hold the horizon back.
const (
	HeldByOffer   = "offer"   // one that is out or waits
	HeldByTask    = "task"    // one that runs or is offered
	HeldBySize    = "size"    // of a task that cannot be carried
	HeldByLimit   = "limit"   // an admission that counts
	HeldByBudget  = "budget"  // its period
	HeldByArchive = "archive" // which does not take what goes
	HeldByFault   = "fault"   // what went wrong otherwise
)

// whyShort moves the horizon for what jobs and queues keep less long than the rest.
const whyShort = "most of it has been kept for as long as its jobs and queues say"

// Choose decides how far the horizon may move.
func (k Keeping) Choose(f Front) (c Choice) {
	if f.Aged.Seq > 0 {
		c.Below, c.Why = f.Aged.Seq, fmt.Sprintf("what ended more than %v ago goes", k.Age)
	}
	if f.Many.Seq > c.Below {
		c.Below, c.Why = f.Many.Seq, fmt.Sprintf("more than %d tasks have ended", k.Tasks)
		c.Waits = f.Aged.Seq < f.First+k.least()
	}
	if f.Short.Seq > c.Below {
		c.Below, c.Why, c.Waits = f.Short.Seq, whyShort, false
	}
	if f.Young.Seq > 0 {
		c.Below = min(c.Below, f.Young.Seq)
	}
	c.hold(f.Counts.Seq, Held{By: HeldByBudget, What: "the period of a budget, which counts what was", Since: f.Counts.Stored})
	c.hold(f.Floor.Seq, Held{By: HeldByOffer, What: "an offer that is out or waits", Task: f.Floor.Holder, Since: f.Floor.Since})
	all := c.Below
	c.Below = min(all, f.First+k.most())
	if c.Left = all - c.Below; c.Below < f.First+k.least() {
		c = Choice{Held: c.Held}
	}
	return c
}

// hurries tells whether a server hurries: more may go next than before, and more than it passes at once. Then
// it hurries until that is not more any longer. Of what has been there for long, it may take its time.
func (k *Keeping) hurries(already bool, was, left uint64) bool {
	return left > k.most() && (already || was > 0 && left > was)
}

// hold stops the horizon at a sequence; 0 is none.
func (c *Choice) hold(seq uint64, by Held) {
	if seq > 0 && seq < c.Below {
		by.Seq = seq
		c.Below, c.Held = seq, by
	}
}

// fate is what becomes of a task when the front of the log goes.
type fate uint8

const (
	dies  fate = iota // it has ended long ago, and nothing needs it
	stays             // it is carried
	holds             // the horizon must not pass it
)

// front is what is known of a task of which something lies in front of the horizon.
type front struct {
	// offer is the last offer; 0 for none.
	offer uint64
	// later says that something lies behind the horizon, needed that something that lives may still ask
	// for the task.
	later, needed bool
}

// fateOf decides about a task. Seq is where the horizon must stop, if the task holds it.
func (k *Keeping) fateOf(t *task.Task, f front, below uint64, now time.Time) (is fate, seq uint64) {
	if t.State == task.Unknown || t.Spec == nil {
		return dies, 0
	}
	if t.Live() {
		f.offer = min(t.Epoch, cmp.Or(t.Offer, t.Epoch))
	}
	switch {
	case (t.Live() && t.Epoch > 0 || t.State == task.Pending && t.Offered) && f.offer < below:
		return holds, f.offer
	case !t.State.Terminal() || f.needed || f.later || !k.over(t, now):
		return stays, 0
	}
	return dies, 0
}

// locks tells whether an ended task still has its unique key.
func locks(t *task.Task, now time.Time) bool {
	key, err := t.UniqueKey()
	return err == nil && key != "" && birth.Locks(t, t.Spec.Lock(), now)
}

// What tells how much of the front has stayed long enough: of so many places in it so many messages.
const (
	samplePlaces = 8
	sampleEach   = 50
	narrower     = 8 // of a front that has not, this part may

	// A front is not read if fewer tasks have ended than one for so many messages: most of it stays. A task has
	// three messages, and few have ten times as many.
	fewEnded = 50

	// After samples in vain there are others only when the log has grown by a tenth, or after a pause, which
	// doubles each time. Else a server at rest would read the same rows for ever.
	grown       = 10
	sampleAgain = 5 * time.Second
	sampleMost  = 10 * time.Minute
)

// sampled is when the front was sampled in vain.
type sampled struct {
	end   uint64 // of the front then
	next  time.Time
	pause time.Duration
}

// again tells whether to sample a front of so many messages up to an end.
func (s *sampled) again(now time.Time, n, end, least uint64) bool {
	return !now.Before(s.next) || end >= s.end+n/grown+least
}

// vain notes that samples were in vain.
func (s *sampled) vain(now time.Time, end uint64) {
	s.pause = min(2*s.pause+sampleAgain, sampleMost)
	s.end, s.next = end, now.Add(s.pause)
}

// short finds a front most of which has stayed for as long as jobs and queues say, by samples: to read it
// all the time would cost too much. Without a read model it finds none.
func (f *Forget) short(ctx context.Context, k *Keeping, front *Front, now time.Time) (p Point, err error) {
	span := front.Young.Seq - min(front.First, front.Young.Seq)
	if f.Model == nil || !f.samples.again(now, span, front.Young.Seq, k.least()) {
		return p, nil
	}
	for n := min(span, k.most()); n >= k.least(); n /= narrower {
		var ids []task.ID
		for i := range min(n, samplePlaces) {
			some, err := f.some(ctx, front.First+i*n/samplePlaces)
			if err != nil {
				return p, err
			}
			ids = append(ids, some...)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		rows, err := f.Model.Known(ctx, ids)
		if err != nil {
			return p, err
		}
		over := 0
		for i := range rows {
			if rows[i].Seq < front.First+n && k.over(&rows[i], now) {
				over++
			}
		}
		if over*4 > len(ids)*3 {
			f.samples = sampled{}
			return Point{Seq: front.First + n}, nil
		}
	}
	f.samples.vain(now, front.Young.Seq)
	return p, nil
}

// some are the tasks of a few messages from a sequence on.
func (f *Forget) some(ctx context.Context, from uint64) (ids []task.ID, err error) {
	feed, err := f.Log.Follow(ctx, from)
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	records, err := feed.Next(ctx)
	for i := range records[:min(len(records), sampleEach)] {
		if id := records[i].Fact.Task; id != "" {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// many is when the first of the ended tasks ended that are too many; zero if there are not so many.
func (f *Forget) many(ctx context.Context) (time.Time, error) {
	if f.Keeping.Tasks == 0 || f.Ended == nil {
		return time.Time{}, nil
	}
	return f.Ended(ctx, f.Keeping.Tasks)
}
