package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	dir, err := os.MkdirTemp("", "start-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"XDG_CACHE_HOME", "MILLRACE_DEV_DIR"} {
		defer os.Setenv(name, os.Getenv(name))
		os.Setenv(name, dir+"/cache")
	}
	fmt.Println(run(context.Background(), dir+"/data"))
	// Output:
	// hello, mill
	// <nil>
}
