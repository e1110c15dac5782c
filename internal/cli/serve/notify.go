package serve

import (
	"net"
	"os"
	"sync"
)

// managerAddress is the socket at which the service manager listens. It is read once, before
// anything of this process is started, and then forgotten: what the process starts is not the
// service.
var managerAddress = sync.OnceValue(func() string {
	at := os.Getenv("NOTIFY_SOCKET")
	_ = os.Unsetenv("NOTIFY_SOCKET") // a name that Getenv takes cannot be refused
	return at
})

// started is what a unit of Type=notify says when it has started.
const started = "READY=1"

// tellManager tells the service manager a state of this process, as sd_notify(3) describes it. Without a manager it does nothing. Nothing depends
// on the answer, so there is none.
func tellManager(state string) {
	at := managerAddress()
	if at == "" {
		return
	}
	c, err := net.Dial("unixgram", at) // net knows that a leading @ means an abstract name
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write([]byte(state))
}
