package publish

import (
	"runtime"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
)

// outlet has what many goroutines say at about the same time leave in one write.
// The client library writes as soon as anything was published, and the runtime lets the
// goroutine that does so overtake all others that are ready; with hundreds of tasks in
// flight that was more than one write for each message, with all that it costs at both ends. The
// outlet steps back once before it publishes, so that whoever is ready can
// add what they have; if nobody is, nothing is lost but the time of a call.
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

// parcel is a message and who waits for its acknowledgement, or only a subject
// and a body.
type parcel struct {
	m *nats.Msg
	ticket

	subject string
	body    []byte
}

// newOutlet returns an outlet, for which run must be called. What cannot be
// published goes to refuse.
func newOutlet(nc *nats.Conn, refuse func(parcel, error)) *outlet {
	return &outlet{nc: nc, refuse: refuse, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// put hands a parcel over. Nobody but the outlet may use what is in it until it
// is acknowledged, refused or recalled.
func (o *outlet) put(one parcel) {
	o.mu.Lock()
	o.queue = append(o.queue, one)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // it will look
	}
}

// recall returns when a message is not in the outlet's hands any more, whether
// it was sent or not.
func (o *outlet) recall(m *nats.Msg) {
	o.sending.Lock() // it may be among those that are being published
	defer o.sending.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = slices.DeleteFunc(o.queue, func(one parcel) bool { return one.m == m })
}

// run publishes what is put until close is called, and then what is left.
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

// publish publishes all that there is. It uses the memory of a batch for what
// comes next, and returns that of this one.
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

// close returns when all that was put before is published. What is put later
// stays where it is.
func (o *outlet) close() {
	close(o.quit)
	<-o.done
}
