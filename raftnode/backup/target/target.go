// Package target is where scheduled backups are kept: a folder, or a prefix in a bucket of S3.
package target

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Target keeps files under names. A file appears whole or not at all, and is never changed.
type Target interface {
	// Put writes a file; fill writes its content.
	Put(ctx context.Context, name string, fill func(io.Writer) error) error
	// Names lists the files that Put wrote, in any order, and may list others beside them.
	Names(ctx context.Context) ([]string, error)
	// Open reads a file.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove removes a file; one that is not there is no error.
	Remove(ctx context.Context, name string) error
	// String names the target for people, without any secret.
	String() string
}

// Options say how a target is reached.
type Options struct {
	// To is a folder, or s3://BUCKET/PREFIX.
	To string
	// Endpoint of S3, a URL; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's of the region.
	Endpoint string
	// CA is a file with the CA certificate of the endpoint, beside those that the system trusts.
	CA string
	// Region of S3; empty: AWS_REGION, or us-east-1.
	Region string
	// CredentialsFile has the keys, as the command line of AWS keeps them; empty: AWS_ACCESS_KEY_ID and
	// AWS_SECRET_ACCESS_KEY, else the file that AWS_SHARED_CREDENTIALS_FILE names, else ~/.aws/credentials.
	CredentialsFile string
}

// Open checks the options and makes the target. It calls nobody yet.
func Open(o Options) (Target, error) {
	if rest, ok := strings.CutPrefix(o.To, "s3://"); ok {
		return openS3(o, rest)
	}
	if strings.Contains(o.To, "://") || !filepath.IsAbs(o.To) {
		return nil, fmt.Errorf("the target of backups %q is neither s3://BUCKET/PREFIX nor an absolute path", o.To)
	}
	return Folder(filepath.Clean(o.To)), nil
}
