package promises

import (
	"os"
	"path/filepath"
	"testing"

	"millrace/integration/harness"
)

func TestMain(m *testing.M) {
	if store := os.Getenv(natsStore); store != "" {
		os.Exit(serveNATS(store))
	}
	if os.Getenv(durableEnv) != "" && filepath.Base(os.Args[0]) != "millrace" {
		os.Exit(durableMain(os.Args[1:]))
	}
	if with := os.Getenv(wrongTimeEnv); with != "" {
		os.Exit(wrongTool(with, os.Args[1:]))
	}
	if filepath.Base(os.Args[0]) == "podman" {
		os.Exit(fakeRuntime(os.Args[1:]))
	}
	if standsIn() {
		os.Exit(standInMain(os.Args[1:]))
	}
	os.Exit(harness.Main(m))
}
