package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Inspect reads whose data directory it is, without making, locking or changing anything. It is empty for a
// directory that has no host's identity yet.
func Inspect(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, hostFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the host's identity: %w", err)
	}
	var r hostRecord
	if err := json.Unmarshal(text, &r); err != nil || r.HostID == "" {
		return "", fmt.Errorf("the host's identity %s is damaged", hostFile)
	}
	return "host " + string(r.HostID), nil
}
