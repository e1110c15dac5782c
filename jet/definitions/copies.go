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
	"millrace/jet/link"
	"millrace/jet/wire"
	"millrace/task/definition"
)

// Keys of the bucket of copies are <kind>.<name> ([definition.Def]). A copy says in a header of which revision it is. Nothing
// in Millrace reads a definition from there.

const (
	copySubject       = "$KV." + wire.DefsBucket + "."
	copyStream        = "KV_" + wire.DefsBucket
	revisionHeader    = "Mr-Revision"
	kvOperationHeader = "KV-Operation"
)

// tellCopiesEvery is how often the log is told at most of copies that were set back: whoever changes them again
// and again cannot fill it.
const tellCopiesEvery = time.Minute

// compareCopiesEvery is how often all copies are compared, though nobody seems to have changed any.
const compareCopiesEvery = 10 * time.Minute

// copied is what lies under a key of the bucket of copies.
type copied struct {
	definition.Copied
	seq uint64
}

// KeepCopies keeps the copies of definitions as the log has the definitions, until ctx ends: it looks every so often, and
// whenever a key of the bucket or a definition changes, while first says that no other server goes before this one. It calls told with each fact that it records of copies which somebody had changed by hand.
func (s *Book) KeepCopies(ctx context.Context, every time.Duration, first func() bool, told func(definition.CopiesRestored), failed func(error)) {
	k := &copyKeeper{s: s, told: told, every: every}
	touched := make(chan struct{}, 1)
	for _, subject := range []string{copySubject + ">", wire.DefPrefix + ">"} {
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
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if first() {
			if err := k.look(ctx); err != nil && ctx.Err() == nil && s.NC.IsConnected() {
				failed(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-touched:
			select { // several changes make one look, and a person in a loop no busy server
			case <-ctx.Done():
				return
			case <-time.After(min(every, 100*time.Millisecond)):
			}
		}
	}
}

// copyKeeper looks after the copies. It is for one goroutine.
type copyKeeper struct {
	s        *Book
	told     func(definition.CopiesRestored)
	every    time.Duration             // how often all copies are compared at most
	after    uint64                    // changes of definitions up to it have been copied
	bucket   bucketState               // as this keeper has left it
	wrote    uint64                    // how many keys it has written in this look
	compared time.Time                 // when all copies were compared
	untold   definition.CopiesRestored // what was set back, and the log was not told of
}

// bucketState tells whether a bucket has changed.
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
	changed, many, reached, err := k.s.changes(ctx, anyKind, k.after)
	if err != nil {
		return err
	}
	all = all || many
	var errs []error
	if all {
		errs = append(errs, k.compare(ctx))
	} else {
		for i := range changed {
			errs = append(errs, k.restore(ctx, changed[i].Def))
		}
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
		case now.last != bucket.last+k.wrote: // somebody else has written meanwhile
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
		return bucketState{}, fmt.Errorf("bucket %s: %w", wire.DefsBucket, err)
	}
	info := stream.CachedInfo()
	return bucketState{info.Created, info.State.LastSeq, info.State.Msgs}, nil
}

// compare looks at every copy and every definition.
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
		if anew, _ := d.Restores(c.Copied); anew {
			errs = append(errs, k.restore(ctx, d.Def))
		}
	}
	for key, c := range copies { // what nobody has defined
		if len(c.Text) > 0 {
			errs = append(errs, k.stray(ctx, key, c))
		}
	}
	return errors.Join(errs...)
}

// stray removes what lies under a key and is no copy of anything.
func (k *copyKeeper) stray(ctx context.Context, key definition.Def, c copied) error {
	if _, known := genres[key.Kind()]; known && key.Validate() == nil {
		return k.restore(ctx, key)
	}
	if done, err := k.write(ctx, key, c.seq, &definition.Definition{}); !done || err != nil {
		return err
	}
	k.untold = k.untold.Gather(definition.Restored{Of: key.Kind(), Name: key.Name(), Found: definition.DigestOf(c.Text)})
	return nil
}

// restore writes a copy anew if that is not what its definition is. The copy is read first: it cannot be of a later
// revision than the definition then, whoever copies at the same time.
func (k *copyKeeper) restore(ctx context.Context, key definition.Def) error {
	c, err := k.s.copyOf(ctx, key)
	if err != nil {
		return err
	}
	d, _, err := k.s.latest(ctx, key)
	if err != nil {
		return err
	}
	anew, byHand := d.Restores(c.Copied)
	if !anew {
		return nil
	}
	if done, err := k.write(ctx, key, c.seq, &d.Definition); !done || err != nil {
		return err
	}
	if byHand {
		r := definition.Restored{Of: key.Kind(), Name: key.Name()}
		if len(c.Text) > 0 {
			r.Found = definition.DigestOf(c.Text)
		}
		if d.Exists() {
			r.Revision = d.Revision
		}
		k.untold = k.untold.Gather(r)
	}
	return nil
}

// write makes a key the copy of a definition, or removes it if there is none, where what lies there has the sequence last. It is
// false if somebody else has written the key meanwhile: the next look sees what.
func (k *copyKeeper) write(ctx context.Context, key definition.Def, last uint64, d *definition.Definition) (bool, error) {
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
		k.bucket = bucketState{}
		return false, nil
	}
	k.wrote++
	return true, nil
}

// tell records what was set back, unless somebody has told of other copies less than a minute ago.
func (k *copyKeeper) tell(ctx context.Context) error {
	if len(k.untold.Copies) == 0 {
		return nil
	}
	last, found, err := k.s.LeaderGet(ctx, map[string]any{"last_by_subj": wire.CopiesSubject})
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
			r, _, err := k.s.LeaderGet(ctx, map[string]any{"last_by_subj": wire.CopiesSubject})
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
		k.untold = definition.CopiesRestored{}
	}
	return nil
}

// copyMessage is the message that makes a key the copy of a definition.
func copyMessage(key definition.Def, d *definition.Definition) *nats.Msg {
	m := &nats.Msg{Subject: copySubject + string(key), Data: d.Text, Header: nats.Header{revisionHeader: {strconv.FormatUint(d.Revision, 10)}}}
	if !d.Exists() {
		m.Header[kvOperationHeader] = []string{"DEL"}
	}
	return m
}

// copyOf reads a copy from the leader.
func (s *Book) copyOf(ctx context.Context, key definition.Def) (copied, error) {
	m, found, err := s.LeaderGetFrom(ctx, copyStream, map[string]any{"last_by_subj": copySubject + string(key)})
	if err != nil || !found {
		return copied{}, link.ReadError(copySubject+string(key), err)
	}
	header, _ := nats.DecodeHeadersMsg(m.Header) // somebody else's may have none
	return copiedIn(header, m.Data, m.Seq), nil
}

func copiedIn(header nats.Header, data []byte, seq uint64) copied {
	c := copied{seq: seq}
	c.There = true
	c.Revision, _ = strconv.ParseUint(header.Get(revisionHeader), 10, 64) // 0 is nobody's
	if header.Get(kvOperationHeader) == "" {
		c.Text = data
	}
	return c
}

// Copies are the copies of definitions that lie in their bucket, by key: what a person sees there, and what was removed.
func (s *Book) Copies(ctx context.Context) (map[definition.Def]definition.Copied, error) {
	found, err := s.copies(ctx)
	all := make(map[definition.Def]definition.Copied, len(found))
	for key, c := range found {
		all[key] = c.Copied
	}
	return all, err
}

// copies reads all of the bucket of copies, what was removed included.
func (s *Book) copies(ctx context.Context) (map[definition.Def]copied, error) {
	stream, err := s.JS.Stream(ctx, copyStream)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", wire.DefsBucket, err)
	}
	all := map[definition.Def]copied{}
	err = link.LastOfAll(ctx, stream, copySubject+">", func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		all[definition.Def(strings.TrimPrefix(m.Subject(), copySubject))] = copiedIn(m.Headers(), m.Data(), meta.Sequence.Stream)
		return nil
	})
	return all, err
}
