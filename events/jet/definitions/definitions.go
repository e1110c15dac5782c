package definitions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/schedule"
)

// Each definition has a chain, mr.def.<kind>.<name>, with one edition per fact. Writers append by
// compare-and-set; readers need only the latest fact.

// ErrChanged: another caller changed the definition while this change was on its way. Nothing was
// stored: read the current definition, and store again what is still wanted.
var ErrChanged = errors.New("it was changed meanwhile")

// genre is what differs between kinds of definitions in how they are stored.
type genre struct {
	none error // the definition does not exist
	// The log's fact about the name is not valid; it was published by other means.
	bad   error
	check func(name string, text []byte) error // whether a text is a definition of that name
}

// genres are all kinds of definitions.
var genres = map[string]genre{
	task.DefJob:      {ErrNoJob, ErrBadJob, func(name string, text []byte) error { _, err := jobOf(name, text); return err }},
	task.DefSchedule: {ErrNoSchedule, ErrBadSchedule, func(name string, text []byte) error { _, err := schedule.Read(name, text); return err }},
	task.DefCalendar: {ErrNoCalendar, ErrBadCalendar, func(name string, text []byte) error { _, err := schedule.ReadCalendar(name, text); return err }},
	task.DefBundle:   {ErrNoBundle, ErrBadBundle, func(name string, text []byte) error { _, err := bundleOf(name, text); return err }},
	task.DefToken:    {ErrNoToken, ErrBadToken, func(name string, text []byte) error { _, err := ReadToken(name, text); return err }},
}

// defined is a definition with its name.
type defined struct {
	task.Def
	task.Definition
}

// Absent is the error for a name without a definition. It wraps the error of the kind: [ErrNoJob],
// [ErrNoSchedule], [ErrNoCalendar], [ErrNoBundle] or [ErrNoToken].
type Absent struct {
	Kind error
	Name string
}

// Error implements error.
func (e *Absent) Error() string { return fmt.Sprintf("%v: %q", e.Kind, e.Name) }

// Unwrap returns the error of the kind.
func (e *Absent) Unwrap() error { return e.Kind }

// absent returns the error for a definition that does not exist.
func absent(d task.Def) error { return &Absent{genres[d.Kind()].none, d.Name()} }

// readable returns an error if the definition could not be read because of err, does not exist, or
// is not valid because it was published by other means.
func (d *defined) readable(err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("read %s %s: %w", d.Kind(), d.Name(), err)
	case !d.Exists():
		return absent(d.Def)
	}
	g := genres[d.Kind()]
	if err := g.check(d.Name(), d.Text); err != nil {
		return fmt.Errorf("%s %s, revision %d, cannot be read: %w: %w", d.Kind(), d.Name(), d.Revision, g.bad, err)
	}
	return nil
}

// latest reads a definition from the leader, which has everything that was acknowledged, and the id
// of its latest fact.
func (s *Registry) latest(ctx context.Context, def task.Def) (d defined, fact string, err error) {
	d.Def = def
	if err := def.Validate(); err != nil {
		return d, "", err
	}
	last, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": names.DefSubject(def)})
	if err != nil || !found {
		return d, "", request.ReadError(names.DefSubject(def), err)
	}
	d, err = s.definitionIn(ctx, def, &last)
	return d, last.Fact.ID, err
}

// Definition implements [events.Reader].
func (s *Registry) Definition(ctx context.Context, def task.Def) (task.Definition, error) {
	d, _, err := s.latest(ctx, def)
	return d.Definition, err
}

// nearest reads a definition from any replica, which may lag behind.
func (s *Registry) nearest(ctx context.Context, def task.Def) (defined, error) {
	d := defined{Def: def}
	if err := def.Validate(); err != nil {
		return d, err
	}
	m, err := s.stream.GetLastMsgForSubject(ctx, names.DefSubject(def))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return d, nil
	}
	if err != nil {
		return d, request.ReadError(names.DefSubject(def), err)
	}
	last := request.Record(m.Subject, m.Sequence, m.Time, m.Header, 1, m.Data)
	return s.definitionIn(ctx, def, &last)
}

// definitionIn returns the definition as of the last record of its chain. If that record is not
// readable because it was published by other means, the definition before it counts.
func (s *Registry) definitionIn(ctx context.Context, def task.Def, last *events.Record) (defined, error) {
	d := defined{Def: def}
	if e, ok := last.Fact.Event.(task.DefinitionEvent); ok && last.Err == nil {
		d.Definition = evolved(d.Definition, last, e)
		return d, nil
	}
	records, err := s.ReadSubject(ctx, names.DefSubject(def), 0)
	d.Definition = events.FoldDefinition(records)
	d.Head = max(d.Head, last.Seq)
	return d, err
}

func evolved(d task.Definition, r *events.Record, e task.DefinitionEvent) task.Definition {
	return task.EvolveDefinition(d, r.Seq, r.Fact.At, r.Fact.Actor, e)
}

// definitionAt reads a revision of a definition, the current one for 0. If there is none, the
// result does not exist.
func (s *Registry) definitionAt(ctx context.Context, def task.Def, revision uint64) (defined, error) {
	d, err := s.nearest(ctx, def)
	if err != nil || revision == 0 || d.Revision == revision {
		return d, err
	}
	d = defined{Def: def}
	for from := uint64(1); ; {
		batch, err := s.ReadBatch(ctx, names.DefSubject(def), from)
		if err != nil {
			return d, request.ReadError(names.DefSubject(def), err)
		}
		for i := range batch {
			if e, ok := batch[i].Fact.Event.(task.DefinitionEvent); ok {
				if d.Definition = evolved(d.Definition, &batch[i], e); d.Revision == revision {
					return d, nil
				}
			}
		}
		if len(batch) == 0 {
			return s.carriedAt(ctx, def, revision)
		}
		from = batch[len(batch)-1].Seq + 1
	}
}

// carriedAt is definitionAt for a revision of which the log has forgotten the fact.
func (s *Registry) carriedAt(ctx context.Context, def task.Def, revision uint64) (defined, error) {
	records, err := s.ReadSubject(ctx, names.CarriedPrefix+string(def), 0)
	for i := range records {
		r := told(records[i])
		if e, ok := r.Fact.Event.(task.DefinitionEvent); ok && err == nil {
			if d := evolved(task.Definition{}, &r, e); d.Revision == revision {
				return defined{def, d}, nil
			}
		}
	}
	return defined{Def: def}, err
}

// told is a record of a change, where the log has only what it carries of that.
func told(r events.Record) events.Record {
	e, ok := r.Fact.Event.(task.DefinitionCarried)
	if !ok {
		return r
	}
	r.Kind, r.Fact.Type = events.KindDefinition, events.Type(e.As)
	switch r.Fact.Type {
	case events.DefinitionRemoved:
		r.Fact.Event = task.DefinitionRemoved{Revision: e.Edition.Revision}
	case events.SchedulePaused:
		r.Fact.Event = task.SchedulePaused{Edition: e.Edition, Reason: e.Reason}
	case events.ScheduleResumed:
		r.Fact.Event = task.ScheduleResumed{Edition: e.Edition, Reason: e.Reason}
	default:
		r.Fact.Event = task.DefinitionApplied{Edition: e.Edition, Source: e.Source}
	}
	return r
}

// amend replaces a definition by the result of change: an event with the next edition for a text,
// or nil to leave it as it is. If another caller was faster, again tells whether to decide the
// change anew; else the error wraps [ErrChanged].
func (s *Registry) amend(ctx context.Context, def task.Def, actor string, again bool,
	change func(was *defined, now time.Time) (task.DefinitionEvent, error)) (is defined, changed bool, err error) {
	chain := events.Chain[defined, *events.Fact]{
		Read: func(ctx context.Context, wrote *events.Fact) (defined, uint64, bool, error) {
			was, fact, err := s.latest(ctx, def)
			return was, was.Head, wrote != nil && fact == wrote.ID, err
		},
		Write: s.writer.Append, Once: !again,
	}
	var event task.DefinitionEvent
	d, err := chain.Decide(ctx, func(was defined) (*events.Fact, bool, error) {
		now := s.Now().UTC()
		var err error
		if event, err = change(&was, now); err != nil || event == nil {
			return nil, false, err
		}
		return &events.Fact{ID: events.NewID(now), At: now, Actor: actor, Type: events.TypeOf(event), Def: def, Event: event}, true, nil
	})
	is = d.Is
	switch {
	case err != nil:
		return is, false, err
	case d.Outcome == events.Recorded:
		is.Definition = task.EvolveDefinition(is.Definition, d.End, d.Wrote.At, actor, event)
	case d.Outcome == events.Lost: // lost to another change, or to the same one
		if event, err := change(&is, s.Now().UTC()); err != nil || event == nil {
			return is, false, err
		}
		return is, false, fmt.Errorf("%s %s: %w: %s, at %s, to revision %d", def.Kind(), def.Name(), ErrChanged, is.Actor, is.Changed.Format(time.RFC3339), is.Revision)
	}
	return is, d.Done(), nil
}

// DefinitionAt returns a revision of a definition, the current one for 0. If there is none, the
// result does not exist.
func (s *Registry) DefinitionAt(ctx context.Context, def task.Def, revision uint64) (task.Definition, error) {
	d, err := s.definitionAt(ctx, def, revision)
	return d.Definition, err
}

// put stores a definition on behalf of actor and returns its revision. An equal one is left as it
// is; refuse, if not nil, may refuse another one. seen is the revision that the change follows, 0
// for none; any if omitted. The error wraps [ErrChanged] if another caller has changed it at the
// same moment, and [value.ErrOvertaken] if the current revision is not the one seen.
func (s *Registry) put(ctx context.Context, def task.Def, text []byte, actor string, from task.From, seen []uint64, refuse func(now time.Time) error) (revision uint64, changed bool, err error) {
	is, changed, err := s.amend(ctx, def, actor, false, func(was *defined, now time.Time) (task.DefinitionEvent, error) {
		if was.Says(text) && was.Comes(from) {
			return nil, nil
		}
		if err := was.Unseen(seen); err != nil {
			return nil, err
		}
		if refuse != nil {
			if err := refuse(now); err != nil {
				return nil, err
			}
		}
		next, err := was.Next(text)
		return task.DefinitionApplied{Edition: next, Source: from.Source}, err
	})
	if err != nil {
		return 0, false, fmt.Errorf("store %s %s: %w", def.Kind(), def.Name(), err)
	}
	return is.Revision, changed, nil
}

// remove removes a definition on behalf of actor.
func (s *Registry) remove(ctx context.Context, def task.Def, actor string) error {
	_, _, err := s.amend(ctx, def, actor, true, func(was *defined, _ time.Time) (task.DefinitionEvent, error) {
		if !was.Exists() {
			return nil, absent(def)
		}
		next, err := was.Next(nil)
		return task.DefinitionRemoved{Revision: next.Revision}, err
	})
	return err
}

// anyKind stands for all kinds of definitions.
const anyKind = "*"

// definitions reads the latest edition of every definition of a kind, by name, removed ones
// included.
func (s *Registry) definitions(ctx context.Context, kind string) ([]defined, error) {
	var all []defined
	err := request.LastOfAll(ctx, s.stream, names.DefSubject(task.Named(kind, "*")), func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		def := task.Def(strings.TrimPrefix(m.Subject(), names.DefPrefix))
		if _, known := genres[def.Kind()]; !known || def.Validate() != nil {
			return nil
		}
		last := request.Record(m.Subject(), meta.Sequence.Stream, meta.Timestamp, m.Headers(), 0, m.Data())
		d, err := s.definitionIn(ctx, def, &last)
		all = append(all, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list definitions (%s): %w", kind, err)
	}
	slices.SortFunc(all, func(a, b defined) int { return strings.Compare(string(a.Def), string(b.Def)) })
	return all, nil
}

// present reads all existing definitions of a kind, and returns the errors of those that are not
// valid.
func present[D any](ctx context.Context, s *Registry, kind string, read func(*defined, error) (D, error)) ([]D, error) {
	found, err := s.definitions(ctx, kind)
	if err != nil {
		return nil, err
	}
	return presentIn(found, kind, read)
}

// presentIn reads the existing definitions of a kind among some, and returns the errors of those
// that are not valid.
func presentIn[D any](found []defined, kind string, read func(*defined, error) (D, error)) ([]D, error) {
	var all []D
	var errs []error
	for i := range found {
		if found[i].Kind() != kind {
			continue
		}
		d, err := read(&found[i], nil)
		switch {
		case errors.Is(err, genres[kind].none):
		case err != nil:
			errs = append(errs, err)
		default:
			all = append(all, d)
		}
	}
	return all, errors.Join(errs...)
}

const (
	// fewChanges is up to how many changes are read one by one; more are read in batches.
	fewChanges = 64
	// mostChanges is up to how many changes are read at all; with more, the whole list costs less.
	mostChanges = 4096
	// farBehind is how many messages the server should not have to scan without need. To find the
	// first of a kind after a sequence it scans all of them, while the latest of each is at hand,
	// at the price of reading every definition of the kind.
	farBehind = 4096
)

// changes asks the leader which definitions of a kind were changed after a sequence, and up to
// which sequence that is known. If there are many, or the log is another one, all is true, and any
// may have changed.
//
// Known is a sequence that the log has reached, 0 if the caller knows none. If it is after the other
// one, a single request tells that nothing was changed, but not that the log is another one.
func (s *Registry) changes(ctx context.Context, kind string, after, known uint64) (changed []defined, all bool, reached uint64, err error) {
	failed := func(err error) ([]defined, bool, uint64, error) {
		return nil, false, 0, fmt.Errorf("changes of definitions (%s): %w", kind, err)
	}
	// A replica may lag behind without a sign of it, so ask the leader.
	subject := names.DefSubject(task.Named(kind, "*"))
	if after > 0 && known > after && known-after <= farBehind {
		next, err := s.nextOn(ctx, subject, after+1, false)
		if err != nil {
			return failed(err)
		}
		if len(next) == 0 {
			return nil, false, known, nil
		}
	}
	stream, err := s.JS.Stream(ctx, names.LogStream)
	if err != nil {
		return failed(err)
	}
	state := stream.CachedInfo().State
	switch {
	case state.LastSeq == after:
		return nil, false, after, nil
	case after == 0, state.LastSeq < after, after+1 < state.FirstSeq:
		return nil, true, state.LastSeq, nil
	}
	if state.LastSeq-after > farBehind {
		last, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
		if err != nil {
			return failed(err)
		}
		if !found || last.Seq <= after {
			return nil, false, state.LastSeq, nil
		}
	}
	var found []events.Record
	for from := after + 1; from <= state.LastSeq; {
		next, err := s.nextOn(ctx, subject, from, len(found) >= fewChanges)
		if err != nil {
			return failed(err)
		}
		if len(next) == 0 {
			break
		}
		if found = append(found, next...); len(found) > mostChanges {
			return nil, true, state.LastSeq, nil
		}
		from = found[len(found)-1].Seq + 1
		state.LastSeq = max(state.LastSeq, from-1)
	}
	for _, r := range lastOnPlaces(found) {
		d, err := s.definitionIn(ctx, task.Def(strings.TrimPrefix(r.Place, names.DefPrefix)), &r)
		if err != nil {
			return nil, false, 0, err
		}
		changed = append(changed, d)
	}
	return changed, false, state.LastSeq, nil
}

// lastOnPlaces returns the last record of each place, in order.
func lastOnPlaces(records []events.Record) (last []events.Record) {
	seen := map[string]bool{}
	for _, r := range slices.Backward(records) {
		if !seen[r.Place] {
			seen[r.Place] = true
			last = append(last, r)
		}
	}
	slices.Reverse(last)
	return last
}

// nextOn returns the next records on a subject from a sequence on, none if the leader has none. With
// many it first asks for a batch, which a replica may answer that lags behind.
func (s *Registry) nextOn(ctx context.Context, subject string, from uint64, many bool) ([]events.Record, error) {
	if many {
		if batch, err := s.ReadBatch(ctx, subject, from); err != nil || len(batch) > 0 {
			return batch, err
		}
	}
	next, found, err := s.LeaderGet(ctx, map[string]any{"seq": from, "next_by_subj": subject})
	if err != nil || !found {
		return nil, err
	}
	return []events.Record{next}, nil
}

// Definitions returns the definitions of a kind, or of all kinds for "", removed ones included.
func (s *Registry) Definitions(ctx context.Context, kind string) (map[task.Def]task.Definition, error) {
	found, err := s.definitions(ctx, cmp.Or(kind, anyKind))
	all := make(map[task.Def]task.Definition, len(found))
	for i := range found {
		all[found[i].Def] = found[i].Definition
	}
	return all, err
}

// JobsIn reads the jobs among definitions, by name; SchedulesIn reads the schedules and CalendarsIn
// the calendars. The error says which are not valid.
func JobsIn(all map[task.Def]task.Definition) ([]StoredJob, error) {
	return presentIn(sorted(all), task.DefJob, storedJob)
}

// SchedulesIn is explained at [JobsIn].
func SchedulesIn(all map[task.Def]task.Definition) ([]schedule.Stored, error) {
	return presentIn(sorted(all), task.DefSchedule, storedSchedule)
}

// CalendarsIn is explained at [JobsIn].
func CalendarsIn(all map[task.Def]task.Definition) ([]schedule.StoredCalendar, error) {
	return presentIn(sorted(all), task.DefCalendar, storedCalendar)
}

// TokensIn is explained at [JobsIn].
func TokensIn(all map[task.Def]task.Definition) ([]StoredToken, error) {
	return presentIn(sorted(all), task.DefToken, storedToken)
}

// BundlesIn is explained at [JobsIn].
func BundlesIn(all map[task.Def]task.Definition) ([]NamedVersion, error) {
	return presentIn(sorted(all), task.DefBundle, namedVersion)
}

// sorted returns definitions in the order of their names.
func sorted(all map[task.Def]task.Definition) []defined {
	found := make([]defined, 0, len(all))
	for _, def := range slices.Sorted(maps.Keys(all)) {
		found = append(found, defined{def, all[def]})
	}
	return found
}

// JobIn reads the job in a definition of this name. The error wraps [ErrNoJob] if there is none.
func JobIn(name string, d task.Definition) (StoredJob, error) {
	return storedJob(&defined{task.Named(task.DefJob, name), d}, nil)
}

// ScheduleIn is [JobIn] for schedules.
func ScheduleIn(name string, d task.Definition) (schedule.Stored, error) {
	return storedSchedule(&defined{task.Named(task.DefSchedule, name), d}, nil)
}

// CalendarIn is [JobIn] for calendars.
func CalendarIn(name string, d task.Definition) (schedule.StoredCalendar, error) {
	return storedCalendar(&defined{task.Named(task.DefCalendar, name), d}, nil)
}

// DefinitionFacts returns the log's facts about a definition, in order.
func (s *Registry) DefinitionFacts(ctx context.Context, def task.Def) ([]events.Record, error) {
	if err := def.Validate(); err != nil {
		return nil, err
	}
	facts, err := s.ReadSubject(ctx, names.DefSubject(def), 0)
	if err != nil {
		return nil, err
	}
	carried, err := s.ReadSubject(ctx, names.CarriedPrefix+string(def), 0)
	if len(carried) > 0 {
		facts = append(facts, carried...)
		slices.SortFunc(facts, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return facts, err
}
