package daemon

import (
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// BackupTargetFlags say where backups are kept. No secret is in a flag: the keys of S3 come from a file or the
// environment.
type BackupTargetFlags struct{ target.Options }

// Add adds the flags.
func (f *BackupTargetFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.To, "backup-to", "", "where backups are kept: a `folder`, which must be there, or s3://BUCKET/PREFIX")
	flags.StringVar(&f.Endpoint, "backup-s3-endpoint", "", "`URL` of S3; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's of the region")
	flags.StringVar(&f.CA, "backup-s3-ca", "", "`file` with the CA certificate of the endpoint, PEM, beside those that the system trusts")
	flags.StringVar(&f.Region, "backup-s3-region", "", "`region` of S3; by default AWS_REGION, or us-east-1")
	flags.StringVar(&f.CredentialsFile, "backup-s3-credentials-file", "", "`file` with the keys of S3, as AWS keeps them; by default AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials")
}
