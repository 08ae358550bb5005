package target

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// partSize is what one upload of a stream holds in memory.
const partSize = 8 << 20

var errUploadEnded = errors.New("the upload has ended")

// s3 is a prefix in a bucket.
type s3 struct {
	client         *minio.Client
	bucket, prefix string
}

func openS3(o Options, rest string) (Target, error) {
	bucket, prefix, _ := strings.Cut(rest, "/")
	region := cmp.Or(o.Region, os.Getenv("AWS_REGION"), "us-east-1")
	endpoint := cmp.Or(o.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3."+region+".amazonaws.com")
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil {
		return nil, errors.New("the endpoint of S3 is no URL of http or https without a name and password in it")
	}
	transport, err := s3Transport(o.CA, at.Scheme == "https")
	if err != nil {
		return nil, err
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: s3Credentials(o.CredentialsFile), Secure: at.Scheme == "https", Region: region, Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("the endpoint of S3 %s: %w", at.Host, err)
	}
	if bucket == "" {
		return nil, fmt.Errorf("the target of backups s3://%s names no bucket", rest)
	}
	return &s3{client: client, bucket: bucket, prefix: strings.Trim(prefix, "/")}, nil
}

// s3Transport trusts the CA beside those of the system.
func s3Transport(ca string, secure bool) (*http.Transport, error) {
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("connect to S3: %w", err)
	}
	if ca == "" || transport.TLSClientConfig == nil {
		return transport, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read the CA of S3: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read the CA of S3 in %s: it holds no certificate", ca)
	}
	transport.TLSClientConfig.RootCAs = pool
	return transport, nil
}

func s3Credentials(file string) *credentials.Credentials {
	if file != "" {
		return credentials.NewFileAWSCredentials(file, "")
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
}

// String is the URL.
func (t *s3) String() string { return "s3://" + path.Join(t.bucket, t.prefix) }

func (t *s3) key(name string) string { return path.Join(t.prefix, path.Base(name)) }

// Put implements Target. An upload that fails or is interrupted makes no object.
func (t *s3) Put(ctx context.Context, name string, fill func(io.Writer) error) error {
	in, out := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(out)
		_ = out.CloseWithError(err) // it never fails; nil is an orderly end
		filled <- err
	}()
	_, err := t.client.PutObject(ctx, t.bucket, t.key(name), in, -1, minio.PutObjectOptions{
		PartSize: partSize, SendContentMd5: true, // buckets with object lock want it
		ContentType: "application/octet-stream",
	})
	_ = in.CloseWithError(errUploadEnded) // fill must not wait for a reader for ever
	if fillErr := <-filled; fillErr != nil && !errors.Is(fillErr, errUploadEnded) {
		err = fillErr
	}
	return t.wrap("write", name, err)
}

// Names implements Target.
func (t *s3) Names(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing after an error
	prefix := ""
	if t.prefix != "" {
		prefix = t.prefix + "/"
	}
	for object := range t.client.ListObjects(ctx, t.bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if object.Err != nil {
			return nil, t.wrap("list", "", object.Err)
		}
		if name := strings.TrimPrefix(object.Key, prefix); !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names, nil
}

// Open implements Target.
func (t *s3) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := t.client.GetObject(ctx, t.bucket, t.key(name), minio.GetObjectOptions{})
	return object, t.wrap("read", name, err)
}

// Remove implements Target.
func (t *s3) Remove(ctx context.Context, name string) error {
	return t.wrap("remove", name, t.client.RemoveObject(ctx, t.bucket, t.key(name), minio.RemoveObjectOptions{}))
}

func (t *s3) wrap(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s/%s: %w", what, t, name, err)
}
