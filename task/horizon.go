package task

import (
	"encoding/json"
	"math/bits"
	"slices"
	"time"

	"millrace/task/placement"
	"millrace/task/value"
)

// The log does not keep what has ended for ever. Its horizon is the first sequence that it keeps. A
// server chooses a later one, writes anew what lives in front of it (package events, carry.go says
// how), and then removes the front. The chain of the horizon has a fact for each of these steps.

// HorizonEvent is a fact about the horizon. The set is closed. Each is complete, so the last one
// alone gives the state.
type HorizonEvent interface{ isHorizonEvent() }

// Span is the part of the log that a move of the horizon removes.
type Span struct {
	// Below is the first sequence that stays: all messages below it go. From is the first that goes:
	// Below of the move before, 1 if there was none.
	Below uint64 `json:"below,omitzero"`
	From  uint64 `json:"from,omitzero"`
	// Before is when the log stored the first message that stays. All that goes is older.
	Before time.Time `json:"before,omitzero"`
}

// HorizonChosen begins a move of the horizon.
type HorizonChosen struct {
	Span
	// Why says in words which bound moves it.
	Why string `json:"why,omitzero" redact:"hide"`
}

// HorizonSealed records that an archive has what goes.
type HorizonSealed struct {
	Span
	// Chosen is the sequence of the [HorizonChosen].
	Chosen uint64 `json:"chosen,omitzero"`
	// Segment names the part of the archive, and Digest is the hash of its content.
	Segment string `json:"segment,omitzero" redact:"keep"`
	Digest  string `json:"digest,omitzero" redact:"keep"`
	// First and Last are the sequences that the segment covers, Messages how many messages it has, and
	// Bytes its size.
	First    uint64 `json:"first,omitzero"`
	Last     uint64 `json:"last,omitzero"`
	Messages uint64 `json:"messages,omitzero"`
	Bytes    int64  `json:"bytes,omitzero"`
}

// HorizonCarried records that all that lives in front of the horizon is written anew behind it.
type HorizonCarried struct {
	Span
	Chosen uint64 `json:"chosen,omitzero"`
	// Chains is how many chains were carried.
	Chains int `json:"chains,omitzero"`
}

// HorizonPurged records that the front of the log is gone.
type HorizonPurged struct {
	Span
	Chosen uint64 `json:"chosen,omitzero"`
}

// ArchiveRemoved records, before they go, that somebody removes segments of an archive: what they have of
// the past is then gone. It moves no horizon, and says where that is: it may be the last fact of the chain.
type ArchiveRemoved struct {
	Span
	// Open and Closed tell how far a move of the horizon was, and the others are those of [Horizon].
	Open   bool      `json:"open,omitzero"`
	Closed bool      `json:"closed,omitzero"`
	Sealed bool      `json:"sealed,omitzero"`
	Chosen uint64    `json:"chosen,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Archive is the place, and Segments are the names, at most [NamedSegments].
	Archive  string   `json:"archive,omitzero" redact:"hide"`
	Segments []string `json:"segments,omitzero" redact:"keep"`
	// More is how many segments are not named.
	More int `json:"more,omitzero"`
}

// Removal is the note that segments of an archive are removed now.
func (h *Horizon) Removal(archive string, segments []string) ArchiveRemoved {
	n := min(len(segments), NamedSegments)
	return ArchiveRemoved{Span: h.Span, Open: h.Step == HorizonOpen, Closed: h.Step == HorizonClosed, Sealed: h.Sealed, Chosen: h.Chosen, Since: h.Since,
		Archive: archive, Segments: segments[:n], More: len(segments) - n}
}

// NamedSegments is how many removed segments one fact names.
const NamedSegments = 1000

func (ArchiveRemoved) isHorizonEvent() {}
func (HorizonChosen) isHorizonEvent()  {}
func (HorizonSealed) isHorizonEvent()  {}
func (HorizonCarried) isHorizonEvent() {}
func (HorizonPurged) isHorizonEvent()  {}

// HorizonStep is how far a move of the horizon is.
type HorizonStep uint8

// The steps. A server that finds a move under way goes on with it.
const (
	HorizonRests  HorizonStep = iota // none is under way
	HorizonOpen                      // chosen: what lives below is to be carried
	HorizonClosed                    // carried: what is below is to be removed
)

// Horizon is the sum of the facts about the horizon. The zero value is that of a log which keeps
// everything.
type Horizon struct {
	// Span is what the last move removes, or has removed. Below and Before never fall.
	Span
	// Step is how far the move is. Sealed says that an archive has what goes.
	Step   HorizonStep `json:"step,omitzero"`
	Sealed bool        `json:"sealed,omitzero"`
	// Chosen is the sequence of the move's first fact, and Since when its last step was done.
	Chosen uint64    `json:"chosen,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Head is the sequence of the last fact, which the next one must expect; 0 for none.
	Head uint64 `json:"head,omitzero"`
}

// EvolveHorizon adds a fact with a sequence and a time. It is total: a step that does not follow, and
// a horizon that is no later, change only Head. Of a log that has forgotten the earlier steps, the
// last one tells all.
func EvolveHorizon(h Horizon, seq uint64, at time.Time, e HorizonEvent) Horizon {
	if seq <= h.Head {
		return h
	}
	known := h.Head > 0
	h.Head = seq
	step := func(to HorizonStep, s Span, chosen uint64, after ...HorizonStep) {
		if !known || s.Below == h.Below && slices.Contains(after, h.Step) {
			h.Span, h.Chosen, h.Step, h.Since = s, chosen, to, at
		}
	}
	switch e := e.(type) {
	case HorizonChosen:
		if h.Step == HorizonRests && e.Below > h.Below {
			h = Horizon{Span: e.Span, Step: HorizonOpen, Chosen: seq, Since: at, Head: seq}
		}
	case HorizonSealed:
		step(HorizonOpen, e.Span, e.Chosen, HorizonOpen)
		h.Sealed = h.Sealed || h.Step == HorizonOpen && h.Below == e.Below
	case HorizonCarried:
		step(HorizonClosed, e.Span, e.Chosen, HorizonOpen)
	case ArchiveRemoved:
		if !known {
			h = Horizon{Span: e.Span, Sealed: e.Sealed, Chosen: e.Chosen, Since: e.Since, Head: seq}
			if e.Open {
				h.Step = HorizonOpen
			} else if e.Closed {
				h.Step = HorizonClosed
			}
		}
	case HorizonPurged:
		step(HorizonRests, e.Span, e.Chosen, HorizonClosed)
	}
	return h
}

// Older tells whether something that was written or made at a time may be older than what the log
// keeps.
func (h *Horizon) Older(at time.Time) bool { return at.Before(h.Before) }

// HorizonFor is how long a worker relies on what it has read of the horizon, before a claim that takes
// a lease at most. Only that long after the horizon was chosen may the front of the log go: then no
// worker claims a task unread whose chain is gone.
const HorizonFor = time.Second

// resent is by how much later than it was written a birth was put into the log again, if that was
// before the last move of the horizon. No writer takes as long.
const resent = time.Hour

// Forgot tells whether a birth is one that the log has forgotten, and that somebody has put into the
// log again. At is when it was written, and at seq the log stored it, at the time stored. A birth of
// the log's own lies before the fact that moved the horizon beyond the time at which it was written,
// and one that is carried before the horizon.
func (h *Horizon) Forgot(at time.Time, seq uint64, stored time.Time) bool {
	return h.Older(at) && seq >= h.Below && (seq > h.Chosen || stored.Sub(at) > resent)
}

// JobTallied sums up the tasks of a job that the log has forgotten, all of them since the first. It
// lies on a chain of the job; the last one counts.
type JobTallied struct {
	// Below is the horizon up to which they are counted.
	Below uint64 `json:"below,omitzero"`
	// Finished to Abnormal count tasks by the state in which they ended.
	Finished  uint64 `json:"finished,omitzero"`
	Error     uint64 `json:"error,omitzero"`
	Cancelled uint64 `json:"cancelled,omitzero"`
	Abnormal  uint64 `json:"abnormal,omitzero"`
	// Ran is how long their last attempts ran in all.
	Ran value.Duration `json:"ran,omitzero"`
	// Buckets count the last attempts of finished tasks by duration, see [BucketOf].
	Buckets []uint64 `json:"buckets,omitzero"`
	// First and Last are when the first and the last of them ended.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

// TallyEvent is a fact that sums up forgotten tasks. The set is closed.
type TallyEvent interface{ isTallyEvent() }

func (JobTallied) isTallyEvent() {}

// Each doubling of a duration has bucketsTwice buckets; the first bucket ends at 1 ms.
const bucketsTwice = 4

// BucketOf is the bucket of a duration: it is more than the [BucketTop] of the one before, and at
// most its own, give or take a nanosecond.
func BucketOf(d time.Duration) int {
	us := uint64(max((d + 999*time.Nanosecond).Microseconds(), 0))
	if us <= 1000 {
		return 0
	}
	low := bits.Len64((us-1)/1000) - 1 // 1 ms << low is less
	i := low * bucketsTwice
	for d > BucketTop(i) {
		i++
	}
	return i
}

// BucketTop is the longest duration in a bucket.
func BucketTop(i int) time.Duration {
	whole := time.Millisecond << (i / bucketsTwice)
	return whole + whole*time.Duration(i%bucketsTwice)/bucketsTwice
}

// Add counts an ended task.
func (j *JobTallied) Add(t *Task) {
	switch t.State {
	case Finished:
		j.Finished++
		i := BucketOf(t.Ran.Std())
		for len(j.Buckets) <= i {
			j.Buckets = append(j.Buckets, 0)
		}
		j.Buckets[i]++
	case Error:
		j.Error++
	case Cancelled:
		j.Cancelled++
	case Abnormal:
		j.Abnormal++
	default:
		return
	}
	j.Ran += t.Ran
	if j.First.IsZero() || t.EndedAt.Before(j.First) {
		j.First = t.EndedAt
	}
	j.Last = value.Later(j.Last, t.EndedAt)
}

// Join adds other tasks, that go up to a later horizon.
func (j *JobTallied) Join(more JobTallied) {
	j.Below = more.Below
	j.Finished, j.Error = j.Finished+more.Finished, j.Error+more.Error
	j.Cancelled, j.Abnormal = j.Cancelled+more.Cancelled, j.Abnormal+more.Abnormal
	j.Ran += more.Ran
	sum := make([]uint64, max(len(j.Buckets), len(more.Buckets))) // facts share the old one
	for i := range sum {
		for _, of := range [][]uint64{j.Buckets, more.Buckets} {
			if i < len(of) {
				sum[i] += of[i]
			}
		}
	}
	j.Buckets = sum
	if j.First.IsZero() || more.First.Before(j.First) {
		j.First = more.First
	}
	j.Last = value.Later(j.Last, more.Last)
}

// Carried is all that the facts of a task say, up to the message at its Head. It is written when the
// log is about to forget some of them. It lies beside the chain, where only servers may write, and
// counts once a [Kept] on the chain follows directly behind it.
type Carried struct {
	// Fold is the sum of the facts.
	Fold Task      `json:"fold"`
	Born Beginning `json:"born"`
	// Offers is how many offers the present turn has had, and OfferedAt when the log stored the last.
	Offers    int       `json:"offers,omitzero"`
	OfferedAt time.Time `json:"offered_at,omitzero"`
}

// Beginning is what else must be known of the birth of a carried task: its place in the log, and its
// values in fields that later facts may have changed in the task.
type Beginning struct {
	// Seq is its sequence. Chain says that it lay on the task's chain.
	Seq   uint64 `json:"seq,omitzero"`
	Chain bool   `json:"chain,omitzero"`

	Due    time.Time        `json:"due,omitzero"`
	Window *Shut            `json:"window,omitzero"`
	Route  placement.Route  `json:"route,omitzero" redact:"keep"`
	Asked  *placement.Asked `json:"asked,omitzero"`
	Holds  []string         `json:"holds,omitzero" redact:"word"`
	Inputs json.RawMessage  `json:"inputs,omitzero" redact:"drop"`
	// StartBy and EndBy are those of [Work].
	StartBy time.Time `json:"start_by,omitzero"`
	EndBy   time.Time `json:"end_by,omitzero"`
}

// Kept makes the [Carried] fact directly before it in the log the task. It is written by
// compare-and-set on the chain in one step with that one, so both say the same as all facts before
// them. A carried fact without it changes nothing.
type Kept struct {
	// Head is the sequence of the chain's message before it, up to which the other one says all.
	Head uint64 `json:"head,omitzero"`
}

func (Carried) isEvent() {}
func (Kept) isEvent()    {}

// Carriage is a [Carried] fact whose [Kept] may be the next message.
type Carriage struct {
	Seq uint64
	// After is the last message before it that the fold has seen.
	After uint64
	Carried
}

// Birth is the birth of the task, as it was submitted.
func (c *Carried) Birth() Submitted {
	e := Submitted{Work: c.Fold.Work, Due: c.Born.Due, RetryOf: c.Fold.RetryOf, Window: c.Born.Window}
	e.Route, e.Asked, e.Holds, e.Inputs, e.StartBy, e.EndBy =
		c.Born.Route, c.Born.Asked, c.Born.Holds, c.Born.Inputs, c.Born.StartBy, c.Born.EndBy
	if p := c.Fold.Waits(); p != nil && p.Kind == StepCall {
		e.Needs = p.Before // the children are those of its function
	}
	return e
}

// kept makes the waiting fact the task, if e at a sequence belongs to it. A fold that knows its birth,
// and of an offer that has come since the task was read for that fact, knows more.
func (t *Task) kept(e Kept, seq uint64) {
	w, head := t.Carry, t.Head
	t.Carry, t.Rivals, t.Head = nil, nil, seq
	switch {
	case w == nil || w.Seq+1 != seq || w.Fold.Head != e.Head || w.Fold.ID != t.ID:
	case w.After > w.Fold.Seq && head == w.Fold.Head && !t.SubmittedAt.IsZero() && t.SubmittedAt.Equal(w.Fold.SubmittedAt):
	default:
		*t = w.Fold
		t.Head, t.Seq = seq, seq
	}
}
