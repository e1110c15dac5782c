package outputs

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
)

// ForgetOutput removes all that was printed before a time. It asks once, however many tasks have
// printed: each request that removes messages visits all consumers of the stream.
func (o *Outputs) ForgetOutput(ctx context.Context, before time.Time) error {
	return o.forget(ctx, names.OutputStream, before)
}

// ForgetRecords is [Outputs.ForgetOutput] for records.
func (o *Outputs) ForgetRecords(ctx context.Context, before time.Time) error {
	return o.forget(ctx, names.DataStream, before)
}

func (o *Outputs) forget(ctx context.Context, name string, before time.Time) error {
	wrong := func(err error) error {
		return fmt.Errorf("remove what %s has from before %s: %w", name, before.Format(time.RFC3339), err)
	}
	first, found, err := o.LeaderGetFrom(ctx, name, map[string]any{"start_time": before.UTC(), "next_by_subj": ">"})
	if err != nil {
		return wrong(err)
	}
	if !found { // nothing since then: what comes meanwhile stays
		if first, found, err = o.LeaderGetFrom(ctx, name, map[string]any{"last_by_subj": ">"}); err != nil || !found {
			return err
		}
		first.Seq++
	}
	stream, err := o.JS.Stream(ctx, name)
	if err == nil && stream.CachedInfo().State.FirstSeq < first.Seq {
		err = stream.Purge(ctx, jetstream.WithPurgeSequence(first.Seq))
	}
	if err != nil {
		return wrong(err)
	}
	return nil
}
