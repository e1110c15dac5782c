package request

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
)

// Codes of the server's errors that Millrace distinguishes.
const (
	codeWrongSequence = 10071 // the chain has moved on
	CodeNoMessage     = 10037 // nothing there
	CodeNoLeader      = 10008 // a leader is being elected
	CodeNoPeers       = 10005 // too few servers are up to hold a stream
	CodeSameInFlight  = 10158 // the same message, by its id, is being stored
	// Another write of this subject is being stored, maybe our own last one.
	CodeWriteInFlight = 10164

	CodeAccountLimit = 10002 // the account has no room
	CodeResources    = 10023 // the server has no room
	CodeMemoryLimit  = 10028 // the same, for memory
	CodeStorageLimit = 10047 // the same, for files
	CodeStoreFailed  = 10077 // the stream has no room, or the disk
	CodeNoSuchStream = 10059
	codeNameTaken    = 10130 // of a stream that is to be restored
	codeOffline      = 10119 // the server that has the consumer is down
	CodeNoSequence   = 10043 // nothing to remove
	CodeDeleteFailed = 10057 // it could not be removed, mostly because it does not exist
)

// ServerError is an error in an answer of JetStream.
type ServerError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("%s (JetStream error %d)", e.Description, e.ErrCode)
}

// Is makes [errors.Is] match the log's errors by the server's codes. In a cluster, a server that
// has just become the leader of the others may report for a moment that no stream exists.
func (e *ServerError) Is(target error) bool {
	return target == events.ErrConflict && (e.ErrCode == codeWrongSequence || e.ErrCode == CodeWriteInFlight) ||
		target == events.ErrNoStream && e.ErrCode == CodeNoSuchStream
}

// Says tells whether err is the server's error with this code.
func Says(err error, code int) bool {
	e, ok := errors.AsType[*ServerError](err)
	return ok && e.ErrCode == code
}

// Answers tells whether err is the client library's form of the server's error with one of some
// codes.
func Answers(err error, codes ...jetstream.ErrorCode) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains(codes, e.ErrorCode)
}

// NameTaken tells whether a stream could not be restored because there is one of its name.
func NameTaken(err error) bool { return Says(err, codeNameTaken) }

// IsOffline tells whether the only server that has a consumer is down.
func IsOffline(err error) bool { return Answers(err, codeOffline) }

// Full tells whether an error of any call means that a stream, the account or the server has no
// room left, and returns the server's text.
func Full(err error) (word string, full bool) {
	if e, ok := errors.AsType[*ServerError](err); ok {
		return e.Description, fullCode(e.ErrCode)
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.Description, fullCode(int(e.ErrorCode))
	}
	return "", false
}

func fullCode(code int) bool {
	switch code {
	case CodeAccountLimit, CodeStorageLimit, CodeMemoryLimit, CodeResources, CodeStoreFailed:
		return true
	}
	return false
}
