package definitions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
)

// Keys of the bucket of copies are <kind>.<name> ([task.Def]). A header of the copy says
// which revision it has. Millrace itself never reads a definition from there.

const (
	copySubject       = "$KV." + names.DefsBucket + "."
	copyStream        = "KV_" + names.DefsBucket
	revisionHeader    = "Mr-Revision"
	kvOperationHeader = "KV-Operation"
)

// tellCopiesEvery is the shortest time between two facts about restored copies: a user that changes
// copies again and again cannot fill the log.
const tellCopiesEvery = time.Minute

// compareCopiesEvery is how often all copies are compared, even if none seems to have changed.
const compareCopiesEvery = 10 * time.Minute

// copied is the copy under a key of the bucket.
type copied struct {
	task.Copied
	seq uint64
}

// KeepCopies keeps the copies of definitions equal to the log's definitions, until ctx ends. It
// checks at every interval, and whenever a key of the bucket or a definition changes, while first
// says that no other server goes before this one. It calls told with each fact that it records
// about copies that were changed by hand.
func (s *Registry) KeepCopies(ctx context.Context, every time.Duration, first func() bool, told func(task.CopiesRestored), failed func(error)) {
	k := &copyKeeper{s: s, told: told, every: every}
	touched := make(chan struct{}, 1)
	for _, subject := range []string{copySubject + ">", names.DefPrefix + ">"} {
		sub, err := s.NC.Subscribe(subject, func(*nats.Msg) {
			select {
			case touched <- struct{}{}:
			default:
			}
		})
		if err == nil { // else the tick is enough
			defer func() { _ = sub.Unsubscribe() }()
		}
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if first() {
			if err := k.look(ctx); err != nil && ctx.Err() == nil && s.NC.IsConnected() {
				failed(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-touched:
			select { // one look for several changes: a user in a loop must not keep the server busy
			case <-ctx.Done():
				return
			case <-time.After(min(every, 100*time.Millisecond)):
			}
		}
	}
}

// copyKeeper keeps the copies. Only one goroutine uses it.
type copyKeeper struct {
	s        *Registry
	told     func(task.CopiesRestored)
	every    time.Duration       // how often all copies are compared
	after    uint64              // changes of definitions up to it have been copied
	bucket   bucketState         // as this keeper has left it
	wrote    uint64              // how many keys it has written in this look
	compared time.Time           // when all copies were last compared
	untold   task.CopiesRestored // restored, and not yet recorded in the log
}

// bucketState shows whether a bucket has changed.
type bucketState struct {
	created time.Time
	last    uint64
	msgs    uint64
}

// look brings the copies up to date.
func (k *copyKeeper) look(ctx context.Context) error {
	bucket, err := k.state(ctx)
	if err != nil {
		return err
	}
	k.wrote = 0
	since := time.Since(k.compared)
	all := bucket != k.bucket && since >= k.every || since >= compareCopiesEvery
	changed, many, reached, err := k.s.changes(ctx, anyKind, k.after, 0)
	if err != nil {
		return err
	}
	all = all || many
	var errs []error
	if all {
		errs = append(errs, k.compare(ctx))
	} else {
		errs = append(errs, k.follow(ctx, changed))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if all {
		k.compared = time.Now()
	}
	k.after = reached
	if all || len(changed) > 0 {
		now, err := k.state(ctx)
		if err != nil {
			return err
		}
		switch {
		case now.last != bucket.last+k.wrote: // another writer has written meanwhile
			k.bucket = bucketState{}
		case all || bucket == k.bucket:
			k.bucket = now
		}
	}
	return k.tell(ctx)
}

func (k *copyKeeper) state(ctx context.Context) (bucketState, error) {
	stream, err := k.s.JS.Stream(ctx, copyStream)
	if err != nil {
		return bucketState{}, fmt.Errorf("bucket %s: %w", names.DefsBucket, err)
	}
	info := stream.CachedInfo()
	return bucketState{info.Created, info.State.LastSeq, info.State.Msgs}, nil
}

// compare compares every copy with its definition.
func (k *copyKeeper) compare(ctx context.Context) error {
	copies, err := k.s.copies(ctx)
	if err != nil {
		return err
	}
	found, err := k.s.definitions(ctx, anyKind)
	if err != nil {
		return err
	}
	var errs []error
	for i := range found {
		d := &found[i]
		c := copies[d.Def]
		delete(copies, d.Def)
		errs = append(errs, k.restore(ctx, d, c))
	}
	for key, c := range copies { // keys without a definition
		if len(c.Text) > 0 {
			errs = append(errs, k.stray(ctx, key, c))
		}
	}
	return errors.Join(errs...)
}

// stray removes the content of a key that is not the key of any definition.
func (k *copyKeeper) stray(ctx context.Context, key task.Def, c copied) error {
	if _, known := genres[key.Kind()]; known && key.Validate() == nil {
		return k.restoreNow(ctx, key)
	}
	done, err := k.write(ctx, key, c.seq, &task.Definition{})
	if err != nil {
		return err
	}
	if !done {
		k.bucket = bucketState{}
		return nil
	}
	k.untold = k.untold.Gather(task.Restored{Of: key.Kind(), Name: key.Name(), Found: task.DigestOf(c.Text)})
	return nil
}

// follow restores the copies of definitions that have changed.
func (k *copyKeeper) follow(ctx context.Context, changed []defined) error {
	keys := make([]task.Def, len(changed))
	for i := range changed {
		keys[i] = changed[i].Def
	}
	copies := map[task.Def]copied{}
	err := request.LastOn(ctx, k.s.Link, copyStream, copySubject, keys, func(key task.Def, m *nats.Msg) error {
		seq, err := request.SequenceOf(m)
		copies[key] = copiedIn(m.Header, m.Data, seq)
		return err
	})
	if err != nil {
		return fmt.Errorf("copies of definitions: %w", err)
	}
	var errs []error
	for i := range changed {
		errs = append(errs, k.restore(ctx, &changed[i], copies[changed[i].Def]))
	}
	return errors.Join(errs...)
}

// restore rewrites a copy that differs from its definition. Both were read before; if one of them
// proves to be stale, both are read again.
func (k *copyKeeper) restore(ctx context.Context, d *defined, c copied) error {
	if c.Revision <= d.Revision {
		if done, err := k.settle(ctx, d, c); done || err != nil {
			return err
		}
	}
	return k.restoreNow(ctx, d.Def)
}

// restoreNow rewrites a copy that differs from its definition. It reads the copy first: so the copy
// cannot be of a later revision than the definition, even if another server copies at the same
// time.
func (k *copyKeeper) restoreNow(ctx context.Context, key task.Def) error {
	c, err := k.s.copyOf(ctx, key)
	if err != nil {
		return err
	}
	d, _, err := k.s.latest(ctx, key)
	if err != nil {
		return err
	}
	done, err := k.settle(ctx, &d, c)
	if !done {
		k.bucket = bucketState{} // the next look compares all
	}
	return err
}

// settle rewrites a copy if it differs from its definition. It returns false if another writer has
// written the copy since it was read.
func (k *copyKeeper) settle(ctx context.Context, d *defined, c copied) (done bool, err error) {
	anew, byHand := d.Restores(c.Copied)
	if !anew {
		return true, nil
	}
	if done, err := k.write(ctx, d.Def, c.seq, &d.Definition); !done || err != nil {
		return done, err
	}
	if byHand {
		r := task.Restored{Of: d.Kind(), Name: d.Name()}
		if len(c.Text) > 0 {
			r.Found = task.DigestOf(c.Text)
		}
		if d.Exists() {
			r.Revision = d.Revision
		}
		k.untold = k.untold.Gather(r)
	}
	return true, nil
}

// write makes a key the copy of a definition, or removes it if there is none, if the key's last
// message has the sequence last. It returns false if another writer has written the key meanwhile.
func (k *copyKeeper) write(ctx context.Context, key task.Def, last uint64, d *task.Definition) (bool, error) {
	chain := events.Chain[copied, *nats.Msg]{
		Read: func(ctx context.Context, _ *nats.Msg) (copied, uint64, bool, error) { // the bucket may have been made anew, and count from 1 again
			c, err := k.s.copyOf(ctx, key)
			return c, c.seq, c.Revision == d.Revision && bytes.Equal(c.Text, d.Text), err
		},
		Write: k.s.Replace, Once: true,
	}
	is, err := chain.DecideFrom(ctx, copied{}, last, func(copied) (*nats.Msg, bool, error) { return copyMessage(key, d), true, nil })
	switch {
	case err != nil:
		return false, fmt.Errorf("copy to the key %s: %w", key, err)
	case !is.Done():
		return false, nil
	}
	k.wrote++
	return true, nil
}

// tell records which copies were restored, unless a fact about copies is less than a minute old.
func (k *copyKeeper) tell(ctx context.Context) error {
	if len(k.untold.Copies) == 0 {
		return nil
	}
	last, found, err := k.s.LeaderGet(ctx, map[string]any{"last_by_subj": names.CopiesSubject})
	if err != nil {
		return fmt.Errorf("tell of copies: %w", err)
	}
	now := k.s.Now().UTC()
	if found && now.Sub(last.Stored) < tellCopiesEvery {
		return nil // later
	}
	f := &events.Fact{ID: events.NewID(now), At: now, Type: events.CopiesRestored, Actor: events.PartServer, Event: k.untold}
	chain := events.Chain[events.Record, *events.Fact]{
		Read: func(ctx context.Context, wrote *events.Fact) (events.Record, uint64, bool, error) {
			r, _, err := k.s.LeaderGet(ctx, map[string]any{"last_by_subj": names.CopiesSubject})
			return r, r.Seq, r.Fact.ID == wrote.ID, err
		},
		Write: k.s.writer.Append, Once: true,
	}
	d, err := chain.DecideFrom(ctx, last, last.Seq, func(events.Record) (*events.Fact, bool, error) { return f, true, nil })
	if err != nil {
		return fmt.Errorf("tell of copies: %w", err)
	}
	if d.Done() { // else another server has; its turn was first
		k.told(k.untold)
		k.untold = task.CopiesRestored{}
	}
	return nil
}

// copyMessage is the message that stores a copy under a key.
func copyMessage(key task.Def, d *task.Definition) *nats.Msg {
	m := &nats.Msg{
		Subject: copySubject + string(key),
		Data:    d.Text,
		Header:  nats.Header{revisionHeader: {strconv.FormatUint(d.Revision, 10)}},
	}
	if !d.Exists() {
		m.Header[kvOperationHeader] = []string{"DEL"}
	}
	return m
}

// copyOf reads a copy from the leader.
func (s *Registry) copyOf(ctx context.Context, key task.Def) (copied, error) {
	m, found, err := s.LeaderGetFrom(ctx, copyStream, map[string]any{"last_by_subj": copySubject + string(key)})
	if err != nil || !found {
		return copied{}, request.ReadError(copySubject+string(key), err)
	}
	header, _ := nats.DecodeHeadersMsg(m.Header) // a foreign message may have none
	return copiedIn(header, m.Data, m.Seq), nil
}

func copiedIn(header nats.Header, data []byte, seq uint64) copied {
	c := copied{seq: seq}
	c.There = true
	// No definition has revision 0.
	c.Revision, _ = strconv.ParseUint(header.Get(revisionHeader), 10, 64)
	if header.Get(kvOperationHeader) == "" {
		c.Text = data
	}
	return c
}

// Copies returns the copies in their bucket, by key, removed ones included: what a user of the
// bucket sees.
func (s *Registry) Copies(ctx context.Context) (map[task.Def]task.Copied, error) {
	found, err := s.copies(ctx)
	all := make(map[task.Def]task.Copied, len(found))
	for key, c := range found {
		all[key] = c.Copied
	}
	return all, err
}

// copies reads the whole bucket of copies, removed ones included.
func (s *Registry) copies(ctx context.Context) (map[task.Def]copied, error) {
	stream, err := s.JS.Stream(ctx, copyStream)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", names.DefsBucket, err)
	}
	all := map[task.Def]copied{}
	err = request.LastOfAll(ctx, stream, copySubject+">", func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		all[task.Def(strings.TrimPrefix(m.Subject(), copySubject))] = copiedIn(m.Headers(), m.Data(), meta.Sequence.Stream)
		return nil
	})
	return all, err
}
