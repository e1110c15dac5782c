package millrace_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"millrace"
	"millrace/embedded"
	"millrace/internal/testkit"
)

// TestMain keeps what programs leave in the user's cache out of it, and closes the shared App.
func TestMain(m *testing.M) {
	// The NATS server ends it by itself, some seconds after a stop that came while it began.
	setup := goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3")
	goleak.VerifyTestMain(testkit.Thrifty(inPlace{m}), setup)
}

type inPlace struct{ m *testing.M }

func (p inPlace) Run() int {
	cache, err := os.MkdirTemp("", "millrace-cache-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)
	os.Setenv("XDG_CACHE_HOME", cache)
	os.Unsetenv("MILLRACE_DEV_DIR")
	slog.SetDefault(slog.New(slog.DiscardHandler))
	code := p.m.Run()
	if opened != nil {
		if err := opened.Close(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	return code
}

var (
	opened *millrace.App
	shared = sync.OnceValue(func() *millrace.App {
		app, err := embedded.Open(context.Background(), "")
		if err != nil {
			panic(err)
		}
		opened = app
		return app
	})
)

// running returns the App that all tests here share, with a worker for functions that runs until
// end is called.
func running(functions ...millrace.Handler) (app *millrace.App, end func()) {
	app = shared()
	return app, work(&millrace.Worker{App: app, Slots: 4, Grace: 10 * time.Second}, functions...)
}

// work runs a worker until the returned function is called.
func work(w *millrace.Worker, functions ...millrace.Handler) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, functions...) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			panic(err)
		}
	}
}
