package reading

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
)

// Delivery is what the server says about a message that it delivers, in the message's reply
// subject:
//
//	$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>[.<token>]
type delivery struct {
	Delivered   int
	streamSeq   uint64
	ConsumerSeq uint64
	stored      time.Time
	Pending     uint64
}

func parseDelivery(reply string) (delivery, bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return delivery{}, false
	}
	var parts [12]string
	n := 0
	for n < len(parts) {
		var more bool
		parts[n], rest, more = strings.Cut(rest, ".")
		n++
		if !more {
			break
		}
	}
	first := 2 // after stream and consumer
	if n > 7 {
		first = 4
	}
	if n < first+5 {
		return delivery{}, false
	}
	var v [5]uint64
	for i := range v {
		x, err := strconv.ParseUint(parts[first+i], 10, 64)
		if err != nil {
			return delivery{}, false
		}
		v[i] = x
	}
	return delivery{Delivered: int(v[0]), streamSeq: v[1], ConsumerSeq: v[2], stored: time.Unix(0, int64(v[3])).UTC(), Pending: v[4]}, true
}

// From sets r, which must be zero, to the record of a message that a consumer delivered; ok is
// false for anything else, such as a status message.
func From(r *events.Record, m *nats.Msg) (d delivery, ok bool) {
	if d, ok = parseDelivery(m.Reply); ok {
		readRecord(r, m.Subject, d.streamSeq, d.stored, cameWith(m.Header, 0), m.Data)
	}
	return d, ok
}
