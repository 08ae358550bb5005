package store

import (
	"errors"
	"os"
)

// Owner is the member whose data directory it is, and its cluster, as far as they can be read; it locks and changes nothing. The
// cluster is empty until it is known.
func Owner(dir string) (member, cluster string) {
	var id identity
	if err := readChecksummed(dataDir{root: dir}.identityPath(), "", &id); err != nil {
		return "", ""
	}
	return id.Member, id.Cluster
}

// Inspect reads whose data directory it is, and checks that what belongs to it is there, private and not
// quarantined (S21, S23). It locks, makes and changes nothing, so that it may run beside the member. It is empty
// for a directory that has no member's identity yet.
func Inspect(dir string) (string, error) {
	d := dataDir{root: dir}
	var id identity
	err := readChecksummed(d.identityPath(), "", &id)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if file, found := d.findMemberFile(); found {
			return "", refuse(d.identityPath(), "put the file back, or "+remedyRejoin, "it is missing beside %s", file)
		}
		return "", nil
	case err != nil:
		return "", refuse(d.identityPath(), "put the file back, or "+remedyRejoin, "cannot be read: %w", err)
	case !id.Initialised:
		return "", nil // an interrupted first start, which begins again
	}
	if err := errors.Join(d.checkQuarantine(), d.checkPrivate(id.LogStore), d.checkRequired(id.LogStore)); err != nil {
		return "", err
	}
	return "member " + id.Member, nil
}
