package child

import "testing"

// TestForWorker: which variables of the worker are hidden from everything that it starts.
func TestForWorker(t *testing.T) {
	for variable, want := range map[string]bool{
		"NATS_URL=x": true, "NATS_USER=x": true, "NATS_": true, "MILLRACE_DEV_DIR=x": true, "CREDENTIALS_DIRECTORY=/run/x": true,
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=x": true, "OTEL_EXPORTER_OTLP_TRACES_HEADERS=x": true, "OTEL_EXPORTER_OTLP_ENDPOINT=x": false,
		"OTEL_RESOURCE_ATTRIBUTES=x.HEADERS=y": false,
		"PATH=/bin":                            false, "AWS_NATS_URL=x": false, "NATSURL=x": false, "CREDENTIALS_DIRECTORY_OF=x": false,
	} {
		if forWorker(variable) != want {
			t.Errorf("%s is the worker's: %v", variable, !want)
		}
	}
}
