package streams

import (
	"context"
	"errors"
	"fmt"

	"millrace/events/jet/names"
	"millrace/events/jet/request"

	"github.com/nats-io/nats.go/jetstream"
)

// Sizes are how many bytes the streams beside the log may hold, so that output and records leave
// room for births, results, cancels and heartbeats. 0 means a share of the total (see [SharesOf]),
// and [NoBound] as much as the server takes.
type Sizes struct {
	// Output is what tasks print. When it is full the oldest output of all tasks is dropped.
	Output int64
	// Records is what tasks produce. When it is full new records are refused, and the attempts that
	// produce them fail: records are results, which must not be dropped unasked.
	Records int64
	// Files holds bundles and artifacts. When it is full new ones are refused.
	Files int64
	// State is the progress of tasks, and their checkpoints. When it is full new ones are refused.
	State int64
}

// NoBound means a size without a bound.
const NoBound = -1

// SharesOf divides what all streams may hold together: a quarter for output, a fifth for records,
// three twentieths for files, a twentieth for progress and checkpoints. The rest, more than a
// third, is for the log, heartbeats and definitions.
func SharesOf(store int64) Sizes {
	return Sizes{Output: store / 4, Records: store / 5, Files: store / 20 * 3, State: store / 20}
}

// or fills the zero fields of s from other.
func (s Sizes) or(other Sizes) Sizes {
	for _, f := range []struct{ to, from *int64 }{
		{&s.Output, &other.Output}, {&s.Records, &other.Records}, {&s.Files, &other.Files}, {&s.State, &other.State},
	} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	return s
}

// Set is the set of streams on a server.
type Set struct{ *request.Link }

// sized is a stream with a size, and what happens to new messages when it is full.
type sized struct {
	stream string
	bytes  int64
	full   jetstream.DiscardPolicy
}

func (s Sizes) streams() []sized {
	return []sized{
		{names.OutputStream, s.Output, jetstream.DiscardOld},
		{names.DataStream, s.Records, jetstream.DiscardNew},
		{names.FilesStream, s.Files, jetstream.DiscardNew},
		{names.StateStream, s.State, jetstream.DiscardNew},
	}
}

// If a server does not say how much it may hold, that is found out by trying: the most that is
// asked for, and the least with which bounds make sense.
const (
	mostStore  = 64 << 30
	leastStore = 32 << 20
)

// Size gives the streams beside the log their sizes. store is how many bytes all streams may hold
// together. If store is 0, the account's limit counts, or else the largest of 64 GiB, 32 GiB and so
// on that the server would reserve.
//
// A bound below the stored size drops only output: for the other streams the stored size is then
// the bound. An error says for which stream the size could not be set; streams before it have
// theirs. A request whose answer is lost in an election is made again.
func (s *Set) Size(ctx context.Context, want Sizes, store int64) error {
	f := request.NewFormer(s.NC, request.Patience{})
	if store == 0 && (want.Output == 0 || want.Records == 0 || want.Files == 0 || want.State == 0) {
		err := f.Do(ctx, func(ctx context.Context) (err error) {
			store, err = s.estimate(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, one := range want.or(SharesOf(store)).streams() {
		if err := f.Do(ctx, func(ctx context.Context) error { return s.resize(ctx, one) }); err != nil {
			return fmt.Errorf("size of stream %s: %w", one.stream, err)
		}
	}
	return nil
}

// resize sets a stream's size, if it differs. A foreign stream stays as it is.
func (s *Set) resize(ctx context.Context, want sized) error {
	stream, err := s.JS.Stream(ctx, want.stream)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	cfg := info.Config
	if want.full == jetstream.DiscardNew && want.bytes > 0 {
		want.bytes = max(want.bytes, int64(info.State.Bytes)) // no disk has as many
	}
	if cfg.Metadata["millrace"] == "" || cfg.MaxBytes == want.bytes && cfg.Discard == want.full {
		return nil
	}
	cfg.MaxBytes, cfg.Discard = want.bytes, want.full
	_, err = s.JS.UpdateStream(ctx, cfg)
	return err
}

// estimate finds out how many bytes all streams may hold together.
func (s *Set) estimate(ctx context.Context) (int64, error) {
	account, err := s.JS.AccountInfo(ctx)
	if err != nil {
		return 0, fmt.Errorf("how much the account may hold: %w", err)
	}
	if most := account.Limits.MaxStore; most > 0 {
		return most, nil
	}
	stream, err := s.JS.Stream(ctx, names.OutputStream)
	if err != nil {
		return 0, err
	}
	now := stream.CachedInfo().Config
	if now.MaxBytes > 0 {
		return now.MaxBytes * 4, nil // found out before, when it got its share; see [SharesOf]
	}
	for store := int64(mostStore); store >= leastStore; store /= 2 {
		try := now
		try.MaxBytes = store
		_, err := s.JS.UpdateStream(ctx, try)
		switch {
		case err == nil: // the next size releases it again
			return store, nil
		case !refusesSize(err):
			return 0, fmt.Errorf("how much the server may hold: %w", err)
		}
	}
	return 0, errors.New("the server sets aside less than 32 MiB: give it more, or say the sizes of the streams")
}

// refusesSize tells whether the server has less room than a stream asks for.
func refusesSize(err error) bool {
	return request.Answers(err, request.CodeStorageLimit, request.CodeResources, request.CodeAccountLimit, request.CodeNoPeers)
}

// Usage is how many bytes a stream holds, and may hold.
type Usage struct {
	// Stream names the content: log, output, records, files, state; all for the whole account.
	Stream string
	Bytes  int64
	// Limit is 0 if there is none.
	Limit int64
}

// Usages lists how much the streams hold. store is how many bytes they may hold together; 0 if only
// the account's limit is known.
func (s *Set) Usages(ctx context.Context, store int64) ([]Usage, error) {
	account, err := s.JS.AccountInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("how much the account holds: %w", err)
	}
	if store == 0 {
		store = max(account.Limits.MaxStore, 0)
	}
	all := []Usage{{Stream: "all", Bytes: int64(account.Store), Limit: store}} // no disk has as many
	for _, one := range []struct{ stream, name string }{
		{names.LogStream, "log"}, {names.OutputStream, "output"}, {names.DataStream, "records"}, {names.FilesStream, "files"}, {names.StateStream, "state"},
	} {
		stream, err := s.JS.Stream(ctx, one.stream)
		if err != nil {
			return nil, fmt.Errorf("how much %s holds: %w", one.stream, err)
		}
		info := stream.CachedInfo()
		all = append(all, Usage{
			Stream: one.name,
			Bytes:  int64(info.State.Bytes),
			Limit:  max(info.Config.MaxBytes, 0),
		}) // no disk has as many
	}
	return all, nil
}
