// Loop nests of the kinds that numerical codes consist of, written for this repository.
#ifndef N
#define N 48
#endif
#define SQUARE double

void product(double alpha, double beta, SQUARE c[N][N], SQUARE a[N][N], SQUARE b[N][N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) c[i][j] *= beta;
    for (int k = 0; k < N; k++)
      for (int j = 0; j < N; j++) c[i][j] += alpha * a[i][k] * b[k][j];
  }
}

void two_products(SQUARE c[N][N], SQUARE a[N][N], SQUARE b[N][N], SQUARE t[N][N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      t[i][j] = 0;
      for (int k = 0; k < N; ++k) t[i][j] += a[i][k] * b[k][j];
    }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      c[i][j] *= 0.5;
      for (int k = 0; k < N; ++k) c[i][j] += t[i][k] * a[k][j];
    }
}

void both_ways(SQUARE a[N][N], double *x, double *y, double *u, double *v) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) x[i] = x[i] + a[i][j] * u[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) y[i] = y[i] + a[j][i] * v[j];
}

void there_and_back(SQUARE a[N][N], double *x, double *y, double *t) {
  for (int i = 0; i < N; i++) y[i] = 0;
  for (int i = 0; i < N; i++) {
    t[i] = 0.0;
    for (int j = 0; j < N; j++) t[i] = t[i] + a[i][j] * x[j];
    for (int j = 0; j < N; j++) y[j] = y[j] + a[i][j] * t[i];
  }
}

void symmetric_update(SQUARE c[N][N], SQUARE a[N][N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j <= i; j++) c[i][j] *= 0.5;
    for (int k = 0; k < N; k++)
      for (int j = 0; j <= i; j++) c[i][j] += 1.5 * a[i][k] * a[j][k];
  }
}

void triangular_product(SQUARE a[N][N], SQUARE b[N][N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      for (int k = i + 1; k < N; k++) b[i][j] += a[k][i] * b[k][j];
      b[i][j] = 0.5 * b[i][j];
    }
}

void triangular_solve(SQUARE a[N][N], double *x, double *b) {
  for (int i = 0; i < N; i++) {
    x[i] = b[i];
    for (int j = 0; j < i; j++) x[i] -= a[i][j] * x[j];
    x[i] = x[i] / a[i][i];
  }
}

void factors(SQUARE a[N][N]) {
  for (int k = 0; k < N; k++) {
    for (int i = k + 1; i < N; i++) a[i][k] = a[i][k] / a[k][k];
    for (int i = k + 1; i < N; i++)
      for (int j = k + 1; j < N; j++) a[i][j] -= a[i][k] * a[k][j];
  }
}

void shortest_paths(SQUARE a[N][N]) {
  for (int k = 0; k < N; k++)
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++)
        a[i][j] = a[i][j] < a[i][k] + a[k][j] ? a[i][j] : a[i][k] + a[k][j];
}

void smoothed(int steps, SQUARE a[N][N], SQUARE b[N][N]) {
  for (int t = 0; t < steps; t++) {
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        b[i][j] = 0.2 * (a[i][j] + a[i][j - 1] + a[i][1 + j] + a[1 + i][j] + a[i - 1][j]);
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        a[i][j] = 0.2 * (b[i][j] + b[i][j - 1] + b[i][1 + j] + b[1 + i][j] + b[i - 1][j]);
  }
}

void smoothed_in_place(int steps, SQUARE a[N][N]) {
  for (int t = 0; t < steps; t++)
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        a[i][j] = (a[i - 1][j] + a[i][j - 1] + a[i][j] + a[i][j + 1] + a[i + 1][j]) / 5.0;
}

void waves(int steps, SQUARE ex[N][N], SQUARE ey[N][N], SQUARE hz[N][N]) {
  for (int t = 0; t < steps; t++) {
    for (int j = 0; j < N; j++) ey[0][j] = t;
    for (int i = 1; i < N; i++)
      for (int j = 0; j < N; j++) ey[i][j] = ey[i][j] - 0.5 * (hz[i][j] - hz[i - 1][j]);
    for (int i = 0; i < N; i++)
      for (int j = 1; j < N; j++) ex[i][j] = ex[i][j] - 0.5 * (hz[i][j] - hz[i][j - 1]);
    for (int i = 0; i < N - 1; i++)
      for (int j = 0; j < N - 1; j++)
        hz[i][j] = hz[i][j] - 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
  }
}

void covariance(SQUARE data[N][N], SQUARE cov[N][N], double *mean) {
  for (int j = 0; j < N; j++) {
    mean[j] = 0.0;
    for (int i = 0; i < N; i++) mean[j] += data[i][j];
    mean[j] /= N;
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) data[i][j] -= mean[j];
  for (int i = 0; i < N; i++)
    for (int j = i; j < N; j++) {
      cov[i][j] = 0.0;
      for (int k = 0; k < N; k++) cov[i][j] += data[k][i] * data[k][j];
      cov[i][j] /= N - 1.0;
      cov[j][i] = cov[i][j];
    }
}

void transposed(SQUARE a[N][N], SQUARE b[N][N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) b[j][i] = a[i][j] + 1;
}

void backwards(SQUARE a[N][N], double *x) {
  for (int i = N - 2; i >= 0; i--)
    for (int j = 0; j < N; j++) a[i][j] = a[i + 1][j] * 0.5 + x[j];
}

void shifted_down(SQUARE a[N][N], SQUARE b[N][N]) {
  for (int i = 0; i < N - 1; i++) {
    for (int j = 0; j < N; j++) b[i][j] = a[i + 1][j] * 2;
    for (int j = 0; j < N; j++) a[i][j] = b[i][j] + 1;
  }
}
