package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"millrace/internal/metrics"
)

// collector passes series of sources to Prometheus. It describes none in advance: the sources of a
// process depend on its role.
type collector struct {
	descs   map[*metrics.Family]*prometheus.Desc
	sources []metrics.Source
}

// Describe sends nothing, so the collector is unchecked in the terms of Prometheus.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect collects from all sources.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.sources {
		s.Collect(func(f *metrics.Family, value float64, h *metrics.Histogram, labels ...string) {
			to <- c.metric(f, value, h, labels)
		})
	}
}

func (c *collector) metric(f *metrics.Family, value float64, h *metrics.Histogram, labels []string) prometheus.Metric {
	desc := c.descs[f]
	var m prometheus.Metric
	var err error
	switch {
	case f.Kind == metrics.Distribution:
		buckets := make(map[float64]uint64, len(h.Bounds))
		var n uint64
		for i, bound := range h.Bounds {
			n += h.Counts[i]
			buckets[bound] = n
		}
		m, err = prometheus.NewConstHistogram(desc, n+h.Counts[len(h.Bounds)], h.Sum, buckets, labels...)
	case f.Kind == metrics.Counter:
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, value, labels...)
	default:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if err != nil { // a surplus label, or one that is not UTF-8
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}

// newRegistry returns a registry with the sources, and with figures of Go and the process.
func newRegistry(sources []metrics.Source) *prometheus.Registry {
	c := &collector{descs: map[*metrics.Family]*prometheus.Desc{}, sources: sources}
	for _, f := range metrics.Families {
		c.descs[f] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
