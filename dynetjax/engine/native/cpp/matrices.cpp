// Small matrices, by plain loops in float64.
#include "matrices.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

void factorise(float* d, const float* a, long rows, long columns) {
    const long count = std::min(rows, columns);
    int32_t* changed = (int32_t*)(d + rows * columns);
    int32_t* order = changed + count;
    std::vector<double> x(a, a + rows * columns);
    std::iota(order, order + rows, 0);
    for (long k = 0; k < count; k++) {
        long best = k;
        for (long i = k + 1; i < rows; i++)
            if (std::fabs(x[i * columns + k]) > std::fabs(x[best * columns + k])) best = i;
        changed[k] = (int32_t)best;
        if (best != k) {
            std::swap(order[best], order[k]);
            std::swap_ranges(&x[k * columns], &x[k * columns] + columns, &x[best * columns]);
        }
        const double top = x[k * columns + k];
        for (long i = k + 1; i < rows; i++) {
            double& factor = x[i * columns + k];
            if (top != 0) factor /= top;
            for (long j = k + 1; j < columns; j++) x[i * columns + j] -= factor * x[k * columns + j];
        }
    }
    for (size_t i = 0; i < x.size(); i++) d[i] = (float)x[i];
}

void solve_triangle(float* d, const float* a, const float* b, long n, long columns, bool lower, bool unit) {
    std::vector<double> sums(columns), found((size_t)n * columns);
    for (long step = 0; step < n; step++) {
        const long i = lower ? step : n - 1 - step;
        for (long j = 0; j < columns; j++) sums[j] = b[i * columns + j];
        for (long done = 0; done < step; done++) {
            const long k = lower ? done : n - 1 - done;
            const double factor = a[i * n + k];
            for (long j = 0; j < columns; j++) sums[j] -= factor * found[k * columns + j];
        }
        for (long j = 0; j < columns; j++) found[i * columns + j] = unit ? sums[j] : sums[j] / a[i * n + i];
    }
    for (size_t i = 0; i < found.size(); i++) d[i] = (float)found[i];
}

void cholesky(float* d, const float* a, long n) {
    std::vector<double> x((size_t)n * n, 0.);
    bool positive = true;
    for (long i = 0; i < n; i++)
        for (long j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (long k = 0; k < j; k++) sum -= x[i * n + k] * x[j * n + k];
            if (i == j) positive = positive && sum > 0;
            x[i * n + j] = i == j ? std::sqrt(sum) : sum / x[j * n + j];
        }
    const float none = std::numeric_limits<float>::quiet_NaN();
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) d[i * n + j] = positive || j > i ? (float)x[i * n + j] : none;
}
