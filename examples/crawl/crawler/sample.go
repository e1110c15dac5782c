package crawler

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// serveSample serves the sample site on a free port of the loopback interface
// until closeSite is called, which returns when the server has ended.
func serveSample() (address string, closeSite func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serve the sample site: %w", err)
	}
	server := &http.Server{Handler: Handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // it reports that it was closed
	}()
	return "http://" + l.Addr().String() + "/", func() {
		_ = server.Close() // of the listener, which is no longer needed
		<-ended
	}, nil
}
