package pubsub

import (
	"runtime"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
)

// outlet sends the messages that many goroutines publish at about the same time in one write. The
// client library writes as soon as anything was published, and the runtime lets its writing
// goroutine run before all others that are ready; with hundreds of tasks in flight that made more
// than one write per message, at a cost at both ends. The outlet yields once before it publishes,
// so that ready goroutines can add their messages; if there are none, that costs only one call.
type outlet struct {
	nc     *nats.Conn
	refuse func(parcel, error)
	wake   chan struct{}
	quit   chan struct{}
	done   chan struct{}

	sending sync.Mutex // held while parcels are published

	mu    sync.Mutex
	queue []parcel // guarded by mu
}

// parcel is a message and the slot that waits for its acknowledgement, or only a subject and a
// body.
type parcel struct {
	m *nats.Msg
	ticket

	subject string
	body    []byte
}

// newOutlet returns an outlet; the caller must call run. Messages that cannot be published go to
// refuse.
func newOutlet(nc *nats.Conn, refuse func(parcel, error)) *outlet {
	return &outlet{nc: nc, refuse: refuse, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// put takes a parcel. Only the outlet may use its content until it is acknowledged, refused or
// recalled.
func (o *outlet) put(one parcel) {
	o.mu.Lock()
	o.queue = append(o.queue, one)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// recall returns when the outlet no longer holds a message, whether it was sent or not.
func (o *outlet) recall(m *nats.Msg) {
	o.sending.Lock() // it may be among those being published
	defer o.sending.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = slices.DeleteFunc(o.queue, func(one parcel) bool { return one.m == m })
}

// run publishes parcels until close is called, and then the rest.
func (o *outlet) run() {
	defer close(o.done)
	var batch []parcel
	for {
		select {
		case <-o.wake:
			runtime.Gosched()
			batch = o.publish(batch)
		case <-o.quit:
			o.publish(batch)
			return
		}
	}
}

// publish publishes all waiting parcels. It uses the memory of spare for the next ones, and returns
// that of this batch.
func (o *outlet) publish(spare []parcel) []parcel {
	o.sending.Lock()
	defer o.sending.Unlock()
	o.mu.Lock()
	batch := o.queue
	o.queue = spare[:0]
	o.mu.Unlock()
	for i, one := range batch {
		var err error
		if one.m != nil {
			err = o.nc.PublishMsg(one.m)
		} else {
			err = o.nc.Publish(one.subject, one.body)
		}
		if err != nil {
			o.refuse(one, err)
		}
		batch[i] = parcel{}
	}
	return batch
}

// close returns when everything put before is published. Later parcels stay unsent.
func (o *outlet) close() {
	close(o.quit)
	<-o.done
}
