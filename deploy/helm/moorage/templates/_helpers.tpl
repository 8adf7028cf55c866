{{- define "moorage.installationId" -}}
{{- .Values.installationId | default (printf "ins_%s" (printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 20)) -}}
{{- end -}}
{{- define "moorage.namespacePrefix" -}}
{{- printf "m-%s-" (include "moorage.installationId" . | sha256sum | trunc 8) -}}
{{- end -}}
{{- define "moorage.pullAddress" -}}
{{- .Values.pulls.address | default (printf "127.0.0.1:%d" (.Values.pulls.nodePort | int)) -}}
{{- end -}}
