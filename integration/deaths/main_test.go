package deaths

import (
	"os"
	"testing"

	"millrace/integration/place"
)

func TestMain(m *testing.M) { os.Exit(place.Main(m)) }
