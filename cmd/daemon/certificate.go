package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const (
	// warnBefore is how long before its certificate expires a process begins to say so.
	warnBefore = 30 * 24 * time.Hour
	// warnEvery is how often it does.
	warnEvery = 24 * time.Hour
	// lookEvery is how often the files are looked at.
	lookEvery = time.Minute
)

// WatchCertificate exports when the process's certificate expires, and begins to warn of it until ctx ends.
func WatchCertificate(ctx context.Context, creds *pki.Credentials, registry prometheus.Registerer, log *slog.Logger) error {
	labels := prometheus.Labels{"identity": creds.Identity().Actor()}
	for _, gauge := range []prometheus.GaugeFunc{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_certificate_expiry_timestamp_seconds", Help: "When the certificate that is in use expires, in seconds since 1970.", ConstLabels: labels,
		}, func() float64 { return float64(creds.Certificate().NotAfter.Unix()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_certificate_issued_timestamp_seconds", Help: "When the certificate that is in use was issued, in seconds since 1970.", ConstLabels: labels,
		}, func() float64 { return float64(creds.Certificate().Issued.Unix()) }),
	} {
		if err := registry.Register(gauge); err != nil {
			return err
		}
	}
	go warnOfExpiry(ctx, creds, log)
	return nil
}

func warnOfExpiry(ctx context.Context, creds *pki.Credentials, log *slog.Logger) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var warner certificateWarner
	for {
		warner.look(time.Now(), creds.Certificate(), creds.Err(), log)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// certificateWarner remembers what it said.
type certificateWarner struct {
	warned  time.Time // of the expiry
	refused string    // why the files that are on disk are not used
}

// look warns once a day of a certificate that is about to expire, and once of files that are refused.
func (w *certificateWarner) look(now time.Time, own pki.Certificate, refused error, log *slog.Logger) {
	text := ""
	if refused != nil {
		text = refused.Error()
	}
	if text != "" && text != w.refused {
		log.Error("the certificate files cannot be used", "error", text)
	}
	w.refused = text
	if !admin.ExpiresWithin(warnBefore, own.Issued, own.NotAfter, now) {
		w.warned = time.Time{}
		return
	}
	if now.Sub(w.warned) >= warnEvery {
		w.warned = now
		log.Warn("the certificate of this process is about to expire: renew it with `holdfast ca issue` or `holdfast ca renew`; a running process takes up the new files",
			"identity", own.Actor(), "serial", own.Serial, "expires", own.NotAfter.UTC().Format(time.RFC3339))
	}
}
