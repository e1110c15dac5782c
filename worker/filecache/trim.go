package filecache

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// inode identifies a file on disk, whatever its names. A cache lies on one file system.
type inode uint64

// trim removes directories, the least recently used first, until the rest fits the limit.
// Directories in use stay.
func (c *Cache) trim(limit int64) {
	all := c.residents()
	users := map[inode]int{}
	size := map[inode]int64{}
	of := make([]map[inode]bool, len(all))
	var total int64
	for i, r := range all {
		of[i] = map[inode]bool{}
		_ = filepath.WalkDir(r.dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // another process is removing it right now
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			s, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return nil
			}
			id := inode(s.Ino)
			if of[i][id] {
				return nil
			}
			of[i][id] = true
			if users[id]++; users[id] == 1 {
				size[id] = s.Blocks * 512
				total += size[id]
			}
			return nil
		})
	}
	for i := len(all) - 1; i >= 0 && total > limit; i-- {
		if !c.remove(all[i].slot) {
			continue
		}
		for id := range of[i] {
			if users[id]--; users[id] == 0 {
				total -= size[id]
			}
		}
		c.cfg.Log.Info("files removed from the cache to make room", "version", all[i].key, "used", all[i].used)
	}
}

// remove removes a directory unless it is in use.
func (c *Cache) remove(s slot) bool {
	l := c.lock(s.key)
	if ok, err := l.TryLock(); !ok || err != nil {
		return false
	}
	defer l.Close()
	c.forget(s)
	_ = os.Remove(s.markFile()) // from here on it does not count
	_ = unseal(s.tree())
	return os.RemoveAll(s.dir) == nil
}
