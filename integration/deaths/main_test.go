package deaths

import (
	"os"
	"testing"

	"millrace/integration/place"
)

func TestMain(m *testing.M) {
	if store := os.Getenv(natsStore); store != "" {
		os.Exit(serveNATS(store))
	}
	os.Exit(place.Main(m))
}
