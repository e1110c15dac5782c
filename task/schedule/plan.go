package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // so that every machine knows every zone

	"millrace/task/job"
	"millrace/task/value"
)

// Tick is one planned run of a schedule.
type Tick struct {
	// At is the logical time, which identifies the planned run.
	At time.Time `json:"tick"`
	// Due is when its task is to be made: At plus spread and jitter.
	Due time.Time `json:"due"`
	// Note says in words which rules moved the time; "" for none.
	Note string `json:"note,omitempty"`
}

// Plan is a compiled definition that computes its ticks. It is never modified, so it is safe for
// concurrent use.
type Plan struct {
	name string
	job.Schedule
	fields     cronFields
	zone       *time.Location
	policy     string
	only       hit // of At
	anchor     time.Time
	start, end time.Time // end is inclusive; zero for no bound
	blackouts  []period
}

// Compile checks and compiles a definition. Anchor is the origin of Every without Start. The error
// begins with the name of the invalid field, and is [value.Faults] if there are several.
func Compile(name string, s job.Schedule, anchor time.Time) (*Plan, error) {
	p := &Plan{name: name, Schedule: s, anchor: anchor.UTC().Truncate(time.Second)}
	wrong := value.JoinFaults(p.words(), p.bounds())
	for _, text := range s.Calendar {
		w, err := parsePeriod(text)
		wrong = value.JoinFaults(wrong, value.Under("calendar: ", err))
		p.blackouts = append(p.blackouts, w)
	}
	if wrong = value.JoinFaults(wrong, p.when()); wrong != nil {
		return nil, wrong
	}
	return p, nil
}

// Validate is [Compile] for callers that only need the error.
func Validate(name string, s job.Schedule) error {
	_, err := Compile(name, s, time.Unix(0, 0))
	return err
}

func (p *Plan) words() error {
	var wrong value.Faults
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, w := range []struct {
		field, value string
		words        []string
	}{{"catchup", p.CatchUp, job.CatchUps}, {"overlap", p.Overlap, job.Overlaps}, {"dst", p.DST, job.DSTs}} {
		if w.value != "" && !slices.Contains(w.words, w.value) {
			say("%s is %q, want one of %s", w.field, w.value, strings.Join(w.words, ", "))
		}
	}
	for _, d := range []struct {
		field string
		value value.Duration
	}{{"every", p.Every}, {"jitter", p.Jitter}, {"spread", p.Spread}, {"catchup_window", p.CatchUpWindow}} {
		if d.value < 0 {
			say("%s is %v, want 0 or more", d.field, d.value)
		}
	}
	if p.Depth < 0 || p.Depth > job.MaxDepth {
		say("depth is %d, want 1 to %d", p.Depth, job.MaxDepth)
	}
	if p.PauseAfter < 0 {
		say("pause_after is %d, want 0 or more", p.PauseAfter)
	}
	return value.JoinFaults(wrong...)
}

func (p *Plan) bounds() error {
	var zone, start, end error
	p.zone, zone = zoneOf(p.Timezone)
	p.start, start = p.instant("start", p.Start)
	p.end, end = p.instant("end", p.End)
	if end == nil && !p.end.IsZero() && p.end.Before(p.start) {
		end = fmt.Errorf("end is %s, which is before start", p.End)
	}
	return value.JoinFaults(zone, start, end)
}

// zoneOf returns the zone with a name, UTC for "" and UTC with an error for an invalid name.
func zoneOf(name string) (*time.Location, error) {
	if name == "Local" {
		return time.UTC, errors.New("timezone is Local, which differs from machine to machine: want an IANA name such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(cmp.Or(name, "UTC"))
	if err != nil {
		return time.UTC, fmt.Errorf("timezone is %q, want an IANA name such as Europe/Berlin", name)
	}
	return zone, nil
}

// instant parses a moment. The zero time stands for an empty text.
func (p *Plan) instant(field, text string) (time.Time, error) {
	h, err := p.moment(field, text)
	return h.at, err
}

func (p *Plan) moment(field, text string) (hit, error) {
	if text == "" {
		return hit{}, nil
	}
	h, err := p.parsed(field, text)
	if err == nil && h.at.IsZero() {
		err = fmt.Errorf("%s is %q, want a later time", field, text)
	}
	return h, err
}

func (p *Plan) parsed(field, text string) (hit, error) {
	switch w, ok := value.ParseWall(text); {
	case !ok || !w.Dated || w.Yearless:
	case w.Zoned:
		return hit{at: w.Time.UTC()}, nil
	default:
		w := w.Time
		only := func(from, limit time.Time) (time.Time, bool) { return w, !w.Before(from) && w.Before(limit) }
		policy := cmp.Or(p.DST, job.DSTOnce)
		if field != "at" {
			policy = job.DSTOnce // a bound always exists
		}
		h, ok := nextOnClock(only, p.zone, policy, w.Add(-48*time.Hour))
		if !ok {
			return hit{}, fmt.Errorf("%s is %q, which the clock of %s leaves out; choose another time, or another dst than %s", field, text, p.zone, policy)
		}
		return h, nil
	}
	if value.Impossible(text) {
		return hit{}, fmt.Errorf("%s is %q, which does not exist: there is no such day or hour", field, text)
	}
	return hit{}, fmt.Errorf("%s is %q, want RFC 3339 (2026-03-01T12:00:00Z) or a time of the zone (2026-03-01 12:00)", field, text)
}

// when compiles the one of cron, every and at that is set.
func (p *Plan) when() (err error) {
	set := 0
	for _, there := range []bool{p.Cron != "", p.Every != 0, p.At != ""} {
		if there {
			set++
		}
	}
	switch {
	case set == 0:
		return errors.New("cron, every and at are all missing: one of them says when it fires")
	case set > 1:
		return errors.New("cron, every and at: only one of them can be set")
	case p.Every > 0 && p.Every.Std() < job.MinEvery:
		return fmt.Errorf("every is %v, want at least %v", p.Every, job.MinEvery)
	case p.Every%value.Duration(time.Millisecond) != 0:
		return fmt.Errorf("every is %v, want whole milliseconds", p.Every)
	}
	p.policy = cmp.Or(p.DST, job.DSTOnce)
	switch {
	case p.Cron != "":
		if p.fields, err = parseCron(p.Cron, p.name); err != nil {
			return err
		}
		if p.DST == "" && p.fields.anyHour {
			p.policy = job.DSTTwice
		}
		// 2000 begins a cycle of the calendar: a tick that does not come after it never comes.
		if _, ever := p.fields.next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2045, 1, 1, 0, 0, 0, 0, time.UTC)); !ever {
			return cmp.Or(p.Slip(), fmt.Errorf("cron is %q, which never comes: no year has such a day", p.Cron))
		}
	case p.At != "":
		if p.only, err = p.moment("at", p.At); err != nil {
			return err
		}
	default:
		if !p.start.IsZero() {
			p.anchor = p.start
		}
	}
	return nil
}

// Remark says in words what both day fields of the expression mean together; "" unless both are
// given.
func (p *Plan) Remark() string {
	d := p.fields.days
	switch {
	case !d.given:
		return ""
	case d.both:
		return fmt.Sprintf("both day fields are given, and %s begins with *: a day must match both, as in cron", d.star)
	case d.star != "":
		return fmt.Sprintf("both day fields are given, and a day that matches either counts, as when this schedule was stored: store it again, and a day must match both, because %s begins with *", d.star)
	}
	return "both day fields are given: a day that matches either counts, as in cron"
}

// Zone is the time zone of the schedule.
func (p *Plan) Zone() *time.Location { return p.zone }

// Policy is the schedule's rule for changes of clocks.
func (p *Plan) Policy() string { return p.policy }

// Next returns the first tick after a time, by its logical time; false if there is none.
func (p *Plan) Next(after time.Time) (Tick, bool) {
	t, ok := p.next(after)
	if !ok {
		return Tick{}, false
	}
	tick := Tick{At: t.at, Due: t.at, Note: t.note}
	delay := p.delay(t.at)
	if delay <= 0 {
		return tick, true
	}
	if following, more := p.next(t.at); more {
		// No tick is due later than the one that follows it.
		delay %= following.at.Sub(t.at)
	}
	tick.Due = tick.At.Add(delay)
	tick.Note = joinNotes(tick.Note, fmt.Sprintf("delayed by %v (spread, jitter)", delay))
	return tick, true
}

// Is tells whether a time is a tick of the schedule, and returns the tick.
func (p *Plan) Is(at time.Time) (Tick, bool) {
	t, ok := p.Next(at.Add(-time.Nanosecond))
	return t, ok && t.At.Equal(at)
}

// Between returns the ticks after one time and up to another, inclusively, at most most of them,
// and whether there are more.
func (p *Plan) Between(after, until time.Time, most int) (ticks []Tick, more bool) {
	for {
		t, ok := p.Next(after)
		if !ok || t.At.After(until) {
			return ticks, false
		}
		if len(ticks) == most {
			return ticks, true
		}
		ticks = append(ticks, t)
		after = t.At
	}
}

// maxBlackouts bounds how many excluded periods in a row one search skips.
const maxBlackouts = 20_000

// next is Next without delays.
func (p *Plan) next(after time.Time) (hit, bool) {
	if !p.start.IsZero() && after.Before(p.start) {
		after = p.start.Add(-time.Nanosecond)
	}
	notes := ""
	for range maxBlackouts {
		h, ok := p.raw(after)
		if !ok || !p.end.IsZero() && h.at.After(p.end) {
			return hit{}, false
		}
		w := p.blackout(h.at)
		if w == nil {
			h.note = joinNotes(h.note, notes)
			return h, true
		}
		notes = "calendar: earlier planned runs are left out by " + w.String()
		after = h.at
		if clear := w.edgeAfter(h.at, p.zone); clear.Add(-time.Second).After(after) {
			after = clear.Add(-time.Second) // until then it covers all times
		}
	}
	return hit{}, false
}

func (p *Plan) blackout(t time.Time) *period {
	if len(p.blackouts) == 0 {
		return nil
	}
	wall := spanAt(t, p.zone).wall(t)
	for i := range p.blackouts {
		if p.blackouts[i].covers(wall) {
			return &p.blackouts[i]
		}
	}
	return nil
}

// raw is the next moment of cron, every or at.
func (p *Plan) raw(after time.Time) (hit, bool) {
	switch {
	case p.Cron != "":
		return nextOnClock(p.fields.next, p.zone, p.policy, after)
	case p.At != "":
		return p.only, p.only.at.After(after)
	}
	if after.Before(p.anchor) {
		return hit{at: p.anchor}, true
	}
	// Milliseconds, because a Duration overflows after three centuries.
	every := p.Every.Std().Milliseconds()
	gone := 1000*(after.Unix()-p.anchor.Unix()) + int64(math.Floor(float64(after.Nanosecond()-p.anchor.Nanosecond())/1e6))
	ahead := (gone/every + 1) * every
	return hit{at: later(p.anchor, ahead)}, true
}

// later returns the time so many milliseconds later, in the same zone. A Duration ends after three
// centuries.
func later(t time.Time, ms int64) time.Time {
	return time.Unix(t.Unix()+ms/1000, int64(t.Nanosecond())+ms%1000*1e6).In(t.Location())
}

// delay is the sum of a tick's spread and jitter.
func (p *Plan) delay(at time.Time) time.Duration {
	return share(p.Spread.Std(), p.name) + share(p.Jitter.Std(), p.name+at.UTC().Format(time.RFC3339Nano))
}

// share is a part of d, in whole milliseconds, derived from a key.
func share(d time.Duration, key string) time.Duration {
	ms := uint64(d / time.Millisecond)
	if ms == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash takes everything
	sum := h.Sum64()
	sum ^= sum >> 33 // the low bits of this hash alone are not evenly distributed
	sum *= 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return time.Duration(sum%ms) * time.Millisecond
}
