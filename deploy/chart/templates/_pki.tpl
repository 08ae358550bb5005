{{- /*
Certificates name one controller, and a StatefulSet has one pod template. In mode enrol each makes its own with the CA; else
every controller's pod has the Secrets of all, each in a folder of its name: controllers that sign could issue them anyway.
*/ -}}
{{- define "holdfast.controllerTLSDir" -}}
{{- if eq .Values.pki.mode "enrol" }}/var/lib/holdfast/tls{{ else }}/etc/holdfast/tls/$(POD_NAME){{ end }}
{{- end }}

{{- define "holdfast.controllerSecret" -}}
{{- $prefix := ternary .root.Values.pki.existing.controllerSecretPrefix "holdfast-controller-tls" (eq .root.Values.pki.mode "existing") -}}
{{ $prefix }}-{{ .number }}
{{- end }}

{{- define "holdfast.controllerPKIMounts" -}}
{{- if ne .Values.pki.mode "existing" }}
- {name: ca, mountPath: /run/holdfast/ca}
{{- end }}
{{- if ne .Values.pki.mode "enrol" }}
{{- include "holdfast.controllerTLSMounts" . }}
{{- end }}
{{- end }}

{{- /* The certificates only, for who has nothing to do with the log. */ -}}
{{- define "holdfast.controllerTLSMounts" -}}
{{- if eq .Values.pki.mode "enrol" }}
- {name: data, mountPath: /var/lib/holdfast/tls, subPath: {{ if eq .Values.controller.storage.type "class" }}holdfast/{{ end }}tls, readOnly: true}
{{- else }}
{{- range $i := until (int .Values.controller.replicas) }}
- {name: tls-{{ $i }}, mountPath: /etc/holdfast/tls/holdfast-controller-{{ $i }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "holdfast.controllerPKIVolumes" -}}
{{- if ne .Values.pki.mode "existing" }}
# The CA with its key, which kube-init puts there: in memory, and of controllers only. Nodes have its certificate.
- name: ca
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}
{{- if ne .Values.pki.mode "enrol" }}
{{- range $i := until (int .Values.controller.replicas) }}
- name: tls-{{ $i }}
  secret: {secretName: {{ include "holdfast.controllerSecret" (dict "root" $ "number" $i) }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end }}

{{- define "holdfast.caArgs" -}}
{{- if ne .Values.pki.mode "existing" }}
- --ca-dir=/run/holdfast/ca/files
{{- end }}
{{- end }}

{{- define "holdfast.enrollArgs" -}}
{{- include "holdfast.caArgs" . }}
{{- if ne .Values.pki.mode "existing" }}
- --enroll-listen=:9803
- --enroll-advertise=$(POD_NAME).holdfast-controller.$(POD_NAMESPACE).svc:9803
- --enroll-service-account=$(POD_NAMESPACE)/holdfast-node
{{- end }}
{{- if eq .Values.pki.mode "enrol" }}
- --self-issue
{{- end }}
{{- end }}

{{- define "holdfast.kubeInitArgs" -}}
{{ include "holdfast.logArgs" . }}
- --data-dir=/var/lib/holdfast/controller
- --cluster={{ .Values.pki.clusterName }}
{{- if ne .Values.pki.mode "existing" }}
- --ca-secret={{ .Values.pki.caSecretName }}
{{- end }}
{{- include "holdfast.caArgs" . }}
{{- end }}

{{- define "holdfast.kubeArgs" -}}
{{- $tls := include "holdfast.controllerTLSDir" . -}}
{{ include "holdfast.logArgs" . }}
- --cert={{ $tls }}/tls.crt
- --key={{ $tls }}/tls.key
- --ca={{ $tls }}/ca.crt
- --endpoints=127.0.0.1:9802,{{ include "holdfast.controllerAddresses" (dict "root" . "port" 9802) }}
- --identity=$(POD_NAME)
- --guard-image={{ include "holdfast.image" (dict "root" . "image" .Values.image) }}
{{- $secrets := list }}
{{- range .Values.global.imagePullSecrets }}{{- $secrets = append $secrets .name }}{{- end }}
{{- with $secrets }}
- --guard-pull-secrets={{ join "," . }}
{{- end }}
- --kubelet-silence={{ .Values.kube.kubeletSilence }}
- --metrics-listen=[$(POD_IP)]:9804
{{- if include "holdfast.loopMetadata" . }}
- --snapshot-metadata-address={{ include "holdfast.metadataAddress" . }}
- --snapshot-metadata-audience={{ .Values.snapshotMetadata.audience }}
- --snapshot-metadata-ca=/etc/holdfast/snapshot-metadata-ca/ca.crt
{{- end }}
{{- end }}
