package outputs

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
)

// ForgetOutput removes all that was printed before a time. It asks once, however many tasks have
// printed: each request that removes messages visits all consumers of the stream.
func (o *Outputs) ForgetOutput(ctx context.Context, before time.Time) error {
	return forget(ctx, o.Link, names.OutputStream, ">", before)
}

// ForgetRecords is [Outputs.ForgetOutput] for records.
func (o *Outputs) ForgetRecords(ctx context.Context, before time.Time) error {
	return forget(ctx, o.Link, names.DataStream, ">", before)
}

// forget removes what was stored in a stream before a time, on the subjects that match a filter.
func forget(ctx context.Context, l *request.Link, name, filter string, before time.Time) error {
	wrong := func(err error) error {
		return fmt.Errorf("remove what %s has from before %s: %w", name, before.Format(time.RFC3339), err)
	}
	first, found, err := l.LeaderGetFrom(ctx, name, map[string]any{"start_time": before.UTC(), "next_by_subj": filter})
	if err != nil {
		return wrong(err)
	}
	if !found { // nothing since then: what comes meanwhile stays
		if first, found, err = l.LeaderGetFrom(ctx, name, map[string]any{"last_by_subj": filter}); err != nil || !found {
			return err
		}
		first.Seq++
	}
	if oldest, found, err := l.LeaderGetFrom(ctx, name, map[string]any{"seq": 1, "next_by_subj": filter}); err != nil || !found || oldest.Seq >= first.Seq {
		return err
	}
	up := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSequence(first.Seq)}
	if filter != ">" { // else whole blocks of the stream go
		up = append(up, jetstream.WithPurgeSubject(filter))
	}
	stream, err := l.JS.Stream(ctx, name)
	if err == nil {
		err = stream.Purge(ctx, up...)
	}
	if err != nil {
		return wrong(err)
	}
	return nil
}
