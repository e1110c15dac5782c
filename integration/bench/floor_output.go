package bench

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/streams"
)

// outputBatch is how large the bare messages of [Output] are.
const outputBatch = 256 << 10

// stallWait is how long a message may wait for the answers to those before it. The client library
// would give up after 0.2 s, which a busy machine exceeds.
const stallWait = time.Minute

// Output stores n bytes of a repeated line as bare messages in a stream made like
// [names.OutputStream], two in flight, and returns how long that took.
func Output(ctx context.Context, nc *nats.Conn, layout streams.Layout, line string, n int64) (time.Duration, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2))
	if err != nil {
		return 0, err
	}
	var cfg jetstream.StreamConfig
	for _, s := range layout.Streams() {
		if s.Name == names.OutputStream {
			cfg = s
		}
	}
	cfg.Name, cfg.Subjects = stream+"_OUTPUT", []string{"mrfloor.output"}
	if _, err := js.CreateStream(ctx, cfg); err != nil {
		return 0, err
	}
	var body []byte
	for len(body) < outputBatch {
		body = append(append(body, line...), '\n')
	}
	began := time.Now()
	for sent := int64(0); sent < n; sent += int64(len(body)) {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: cfg.Subjects[0], Data: body}, jetstream.WithStallWait(stallWait)); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	took := time.Since(began)
	return took, js.DeleteStream(ctx, cfg.Name)
}
