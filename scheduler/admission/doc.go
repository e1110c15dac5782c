// Package admission decides, for one scheduler, which tasks their limits admit, from what that
// scheduler knows of them. It records nothing, waits for nothing and reads no clock.
package admission
